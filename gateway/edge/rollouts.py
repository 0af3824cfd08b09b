"""Which sessions make up a rollout, and the places at which rollouts are read."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import count

from gateway.edge.session import Session


@dataclass(slots=True, eq=False)
class Rollout:
    """The sessions of one rollout. Its places do not change when one of them is freed."""

    number: int
    """Its place among all, in the order in which they came to exist."""
    place: int = 0
    """Its place among those that have ended, in the order in which they did; 0 while one of its sessions has not."""
    sessions: list[Session] = field(default_factory=list)
    """Those that exist, in the order of their numbers."""


class Rollouts:
    """All rollouts that have a session. Mutable: `Sessions` writes it."""

    def __init__(self) -> None:
        self._rollouts: dict[str, Rollout] = {}
        self._numbers = count(1)
        self._places = count(1)

    def all(self) -> Sequence[Rollout]:
        """In the order in which they came to exist."""
        return list(self._rollouts.values())

    def sessions(self, rollout_id: str) -> list[Session]:
        """The sessions of one; none where there is no such rollout."""
        rollout = self._rollouts.get(rollout_id)
        return list(rollout.sessions) if rollout else []

    def join(self, session: Session) -> None:
        """A session has come to exist. A rollout that had ended before will end once more, behind all others."""
        rollout = self._rollouts.get(session.rollout_id)
        if rollout is None:
            rollout = self._rollouts[session.rollout_id] = Rollout(next(self._numbers))
        rollout.sessions.append(session)
        rollout.place = 0

    def end(self, session: Session) -> None:
        """A session has ended, perhaps not for the first time, and with it its rollout, if the others have."""
        self._end(self._rollouts[session.rollout_id])

    def leave(self, session: Session) -> None:
        """A session is no more; its rollout may have waited for no other. May be repeated."""
        rollout = self._rollouts.get(session.rollout_id)
        if rollout is None or session not in rollout.sessions:
            return
        rollout.sessions.remove(session)
        if rollout.sessions:
            self._end(rollout)
        else:
            del self._rollouts[session.rollout_id]

    def _end(self, rollout: Rollout) -> None:
        if not rollout.place and all(session.ended for session in rollout.sessions):
            rollout.place = next(self._places)
