"""In which order those go who wait for a rank.

Two orders in one line. What had waited when a pause ended goes first, the call with the fewest ids to sample before
others: it was held for no fault of its session's, and short ones make room soonest. Then sessions go in order of how
few turns they have in flight, and first come, first served among those with equally many, so that one session with
a hundred branches holds up nobody. Who has as few in flight as anybody is overtaken by nobody who came later; a further
call of a session may wait for as long as the session's own turns last, while others come that have none.

Every step costs O(log n), whatever is taken out of the middle.
"""

from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from typing import Generic, TypeVar

from gateway.core.pool import Affinity, Demand

Order = tuple[int, int, int, int]
"""Compares; no two that wait have the same."""

_SLACK = 64


@dataclass(slots=True, eq=False)
class Waiting:
    """One call in a line."""

    affinity: Affinity
    demand: Demand
    number: int
    """Its place in the order of arrival, over all lines."""
    release: int | None = None
    """Which end of a pause it had waited for; ``None`` where it was never held."""


T = TypeVar("T", bound=Waiting)


class Line(Generic[T]):
    """Those who wait, in order. Mutable: written by its own methods only."""

    def __init__(self) -> None:
        self._waiting: dict[T, Order | None] = {}
        # None: behind another one of its session.
        self._sessions: dict[Affinity, dict[T, None]] = {}
        self._heap: list[tuple[Order, T]] = []
        # What has left or has another order by now is still in it, and skipped.
        self._passed: list[tuple[Order, T]] = []

    def __len__(self) -> int:
        """How many wait."""
        return len(self._waiting)

    @property
    def front(self) -> tuple[Order, T] | None:
        """Whose turn it is, and its order, to compare with those of other lines; ``None`` where there is none left."""
        while self._heap and self._waiting.get(self._heap[0][1]) != self._heap[0][0]:
            heappop(self._heap)
        return self._heap[0] if self._heap else None

    def pass_over(self) -> None:
        """Leave whose turn it is in line, and come to the next; `recall` brings back all who were passed over."""
        if front := self.front:
            self._passed.append(front)
            heappop(self._heap)

    def recall(self) -> None:
        """Begin at the beginning again."""
        for passed in self._passed:
            heappush(self._heap, passed)
        self._passed = []

    def join(self, call: T, turns: int) -> None:
        """Get in line; the session has `turns` in flight."""
        if call.release is not None:
            self._set(call, (0, call.release, call.demand.remaining_tokens, call.number))
            return
        behind = self._sessions.setdefault(call.affinity, {})
        self._waiting[call] = None
        behind[call] = None
        if len(behind) == 1:
            self._set(call, (1, turns, call.number, 0))

    def leave(self, call: T, turns: int) -> None:
        """Get out of line, with a rank or without; the session has `turns` in flight."""
        del self._waiting[call]
        if call.release is None:
            behind = self._sessions[call.affinity]
            del behind[call]
            if not behind:
                del self._sessions[call.affinity]
        self.note(call.affinity, turns)
        if len(self._heap) > 2 * len(self._waiting) + _SLACK:
            self._heap = [(order, other) for other, order in self._waiting.items() if order is not None]
            heapify(self._heap)

    def note(self, affinity: Affinity, turns: int) -> None:
        """The session has so many turns in flight now."""
        if behind := self._sessions.get(affinity):
            call = next(iter(behind))
            self._set(call, (1, turns, call.number, 0))

    def _set(self, call: T, order: Order) -> None:
        if self._waiting.get(call) != order:
            self._waiting[call] = order
            heappush(self._heap, (order, call))
