"""A store that tests can hold up, and look into."""

import asyncio
from collections.abc import Sequence

from gateway.core.turn import Turn


class KeepingStore:
    """Keeps every turn that it is given; can be held up, and can fail."""

    def __init__(self) -> None:
        self.turns: list[Turn] = []
        self.deleted: list[tuple[str, int]] = []
        self.waiting = 0
        self.failure: Exception | None = None
        self._open = asyncio.Event()
        self._open.set()

    def hold(self) -> None:
        """Let every put wait from now on."""
        self._open.clear()

    def release(self) -> None:
        """Let those that wait go on."""
        self._open.set()

    async def delete(self, session_id: str) -> None:
        """Forget nothing, since the tests look at what was put, but note how much that was; or fail."""
        if self.failure is not None:
            raise self.failure
        self.deleted.append((session_id, len(self.turns)))

    async def put(self, session_id: str, turns: Sequence[Turn]) -> None:
        """Keep the turns, or fail."""
        self.waiting += 1
        try:
            await asyncio.sleep(0)
            await self._open.wait()
        finally:
            self.waiting -= 1
        if self.failure is not None:
            raise self.failure
        self.turns.extend(turns)
