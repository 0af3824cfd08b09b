"""Which sessions make up a rollout, and the places at which rollouts are read."""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import count
from typing import Literal

from gateway.edge.session import Session

Status = Literal["finished", "open", "all"]

MAX_SESSIONS = 256
"""Of one rollout: a cursor names each, and must fit into the line of a request, 8190 bytes, beside a path and names."""


@dataclass(slots=True, eq=False)
class Members:
    """The sessions of one rollout. Its places do not change when one of them is freed."""

    number: int
    """Its place among all, in the order in which they came to exist."""
    place: int = 0
    """Its place among those that have ended, in the order in which they did; 0 while one of its sessions has not."""
    sessions: list[Session] = field(default_factory=list)
    """Those that exist, in the order of their numbers."""

    def place_in(self, status: Status) -> int:
        """Its place among those of a status; 0 where it is none of the finished."""
        return self.place if status == "finished" else self.number


class Rollouts:
    """All rollouts that have a session. Mutable: `Sessions` writes it."""

    def __init__(self) -> None:
        self._rollouts: dict[str, Members] = {}
        self._of_session: dict[int, Members] = {}
        self._ordered: dict[Status, _Ordered] = {
            "finished": _Ordered(lambda rollout: rollout.place),
            "open": _Ordered(lambda rollout: rollout.number),
            "all": _Ordered(lambda rollout: rollout.number),
        }
        self._numbers = count(1)
        self._places = count(1)

    def after(self, status: Status, place: int) -> Iterator[Members]:
        """Those of a status behind a place, in their order; they must not change meanwhile."""
        return self._ordered[status].after(place)

    def last(self, status: Status) -> int:
        """The place of the last of a status; 0 where there is none."""
        return self._ordered[status].last()

    def of_session(self, number: int) -> Members | None:
        """The rollout of a session that exists, whatever its status."""
        return self._of_session.get(number)

    def sessions(self, rollout_id: str) -> list[Session]:
        """The sessions of one; none where there is no such rollout."""
        rollout = self._rollouts.get(rollout_id)
        return list(rollout.sessions) if rollout else []

    def join(self, session: Session) -> None:
        """A session has come to exist. A rollout that had ended before will end once more, behind all others."""
        rollout = self._rollouts.get(session.rollout_id)
        if rollout is None:
            rollout = self._rollouts[session.rollout_id] = Members(next(self._numbers))
            self._ordered["all"].add(rollout)
            self._ordered["open"].add(rollout)
        elif rollout.place:
            self._ordered["finished"].remove(rollout)
            self._ordered["open"].add(rollout)
        rollout.sessions.append(session)
        rollout.place = 0
        self._of_session[session.number] = rollout

    def end(self, session: Session) -> None:
        """A session has ended, perhaps not for the first time, and with it its rollout, if the others have."""
        self._end(self._rollouts[session.rollout_id])

    def leave(self, session: Session) -> None:
        """A session is no more; its rollout may have waited for no other. May be repeated."""
        rollout = self._of_session.pop(session.number, None)
        if rollout is None:
            return
        rollout.sessions.remove(session)
        if rollout.sessions:
            self._end(rollout)
        else:
            del self._rollouts[session.rollout_id]
            self._ordered["all"].remove(rollout)
            self._ordered["finished" if rollout.place else "open"].remove(rollout)

    def _end(self, rollout: Members) -> None:
        if not rollout.place and all(session.ended for session in rollout.sessions):
            self._ordered["open"].remove(rollout)
            rollout.place = next(self._places)
            self._ordered["finished"].add(rollout)


class _Ordered:
    """Rollouts in the order of a place, which none of them changes while it is here."""

    def __init__(self, place: Callable[[Members], int]) -> None:
        self._place = place
        self._rollouts: list[Members] = []

    def add(self, rollout: Members) -> None:
        insort(self._rollouts, rollout, key=self._place)

    def remove(self, rollout: Members) -> None:
        del self._rollouts[bisect_left(self._rollouts, self._place(rollout), key=self._place)]

    def last(self) -> int:
        return self._place(self._rollouts[-1]) if self._rollouts else 0

    def after(self, place: int) -> Iterator[Members]:
        first = bisect_right(self._rollouts, place, key=self._place)
        return (self._rollouts[index] for index in range(first, len(self._rollouts)))
