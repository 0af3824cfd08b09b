"""Whether turns may go to engines now."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from gateway.core.pause import Scope


class Gate:
    """Open, or closed to all turns or to those of new sessions. What waits is told when it opens. Mutable."""

    def __init__(self) -> None:
        self._held: Scope | None = None
        self._listeners: list[Callable[[], None]] = []
        self._ended: list[Callable[[], None]] = []
        self.sampling = 0
        """What samples beside turns, to find out what an engine is: how many of that are under way."""

    @property
    def held(self) -> Scope | None:
        """Whose turns it holds now."""
        return self._held

    def holds(self, *, new_session: bool) -> bool:
        """Whether it holds a turn back, `new_session` being whether its session has none yet."""
        return self._held == "all" or (self._held == "new_sessions" and new_session)

    def set(self, held: Scope | None) -> None:
        """Hold the turns of a scope from now on, or none."""
        self._held = held
        for tell in self._listeners:
            tell()

    def when_changed(self, tell: Callable[[], None], *, ended: Callable[[], None] = lambda: None) -> None:
        """Call `tell` whenever it changes, and `ended` when something that samples beside turns has ended."""
        self._listeners.append(tell)
        self._ended.append(ended)

    @contextmanager
    def beside_turns(self) -> Iterator[None]:
        """Sample something that is no turn, for who has seen that turns are not held; a drain waits for it, too."""
        self.sampling += 1
        try:
            yield
        finally:
            self.sampling -= 1
            for tell in self._ended:
                tell()
