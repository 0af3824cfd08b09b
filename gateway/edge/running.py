"""The calls that engines are sampling for now: who may have to end one early, or must know how far it is."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from gateway.core.types import CutReason
from gateway.core.versions import Marks
from gateway.edge.rank import Rank


class EngineCall:
    """One call under way at a rank, made for one answer, which it may be the second or third call for."""

    def __init__(
        self,
        rank: Rank,
        sampled: Callable[[], int],
        marks: Marks,
        *,
        is_asked_anew: bool = False,
        when_hurried: Callable[[], None] = lambda: None,
    ) -> None:
        self.rank = rank
        self.is_asked_anew = is_asked_anew
        """Whether nothing of it is kept when it is ended early: it is asked once more from its beginning."""
        self.marks = marks
        """Of its answer, which policy version began where."""
        self._sampled = sampled
        self._start = sampled()
        self._scope: asyncio.Timeout | None = None
        self._listening_s = 0.0
        self._when_hurried = when_hurried
        self.is_hurried = False
        """Whether it is to come to its end without waiting for its client."""
        self.is_cut_by_its_engine = False
        """Whether its engine has been told to end it, by a pause of ours."""
        self.interrupted: CutReason | None = None
        """Why it was ended early by us; ``None`` where it was not."""

    @property
    def position(self) -> int:
        """How many ids of the answer have come, those of earlier calls included."""
        return self._sampled()

    @property
    def has_begun(self) -> bool:
        """Whether an id of this call has come."""
        return self.position > self._start

    @property
    def silent_s(self) -> float:
        """For how long it has been listened to without a word; 0 while nobody listens, since a client is slow."""
        return 0.0 if self._scope is None else asyncio.get_running_loop().time() - self._listening_s

    def hurry(self) -> None:
        """Have it read to its end without waiting for its client, which is given later what it has not taken."""
        self.is_hurried = True
        self._when_hurried()

    def interrupt(self, reason: CutReason) -> None:
        """End it now. What it has sampled is kept, and the answer goes on from there in another call."""
        self.interrupted = self.interrupted or reason
        self.hurry()
        if self._scope is not None:
            self._scope.reschedule(asyncio.get_running_loop().time())

    @contextmanager
    def within(self, scope: asyncio.Timeout) -> Iterator[None]:
        """Have `scope`, which is entered, time out as soon as the call is interrupted."""
        self._scope, self._listening_s = scope, asyncio.get_running_loop().time()
        try:
            if self.interrupted:
                scope.reschedule(asyncio.get_running_loop().time())
            yield
        finally:
            self._scope = None


class Running(set[EngineCall]):
    """All calls under way. Mutable: they come and go; who asked for it is told when one has begun or ended."""

    def __init__(self) -> None:
        super().__init__()
        self._listeners: list[Callable[[], None]] = []

    def when_changed(self, tell: Callable[[], None]) -> None:
        """Call `tell` whenever a call has begun or ended."""
        self._listeners.append(tell)

    def _tell(self) -> None:
        for tell in self._listeners:
            tell()

    @contextmanager
    def under_way(self, call: EngineCall) -> Iterator[None]:
        """Count a call among them for a while."""
        self.add(call)
        self._tell()
        try:
            yield
        finally:
            self.discard(call)
            self._tell()

    def hurry(self, *, aborted: bool) -> None:
        """Have them come to their end without waiting for clients; `aborted` by their engines, which are told to."""
        for call in self:
            call.is_cut_by_its_engine |= aborted
            call.hurry()

    def interrupt(self, reason: CutReason, *, of: Callable[[EngineCall], bool] = lambda _call: True) -> int:
        """End those that `of` chooses; how many those are."""
        chosen = [call for call in self if of(call)]
        for call in chosen:
            call.interrupt(reason)
        return len(chosen)
