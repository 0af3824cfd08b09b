"""Where turns are kept."""

from typing import Protocol

from gateway.core.turn import Turn


class Store(Protocol):
    """Keeps turns. A turn becomes visible only after `put` has returned."""

    async def put(self, session_id: str, turn: Turn) -> None:
        """Keep one turn; when this returns, it is as safe as the store makes it."""


class MemoryStore:
    """Keeps nothing beyond the ledger itself: turns live as long as the process."""

    async def put(self, session_id: str, turn: Turn) -> None:
        """Accept the turn; the ledger that it will be committed to is the only copy."""
