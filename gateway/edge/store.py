"""Where turns are kept."""

from collections.abc import Sequence
from typing import Protocol

from gateway.core.turn import Turn


class Store(Protocol):
    """Keeps turns. A turn becomes visible only after `put` has returned."""

    async def put(self, session_id: str, turns: Sequence[Turn]) -> None:
        """Keep the turns of one call, all or none; when this returns, they are as safe as the store makes them."""

    async def delete(self, session_id: str) -> None:
        """Forget a session; one that is unknown is forgotten already."""


class MemoryStore:
    """Keeps nothing beyond the ledger itself: turns live as long as the process."""

    async def put(self, session_id: str, turns: Sequence[Turn]) -> None:
        """Accept the turns; the ledger that they will be committed to is the only copy."""

    async def delete(self, session_id: str) -> None:
        """Nothing is kept."""
