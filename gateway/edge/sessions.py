"""The sessions of this gateway."""

from collections.abc import Iterator
from contextlib import contextmanager

from gateway.core.ledger import Ledger
from gateway.errors import BadRequest, UnknownSession

_RESERVED = {"turns", "trajectories", "finish", "v1"}
_MAX_ID_CHARS = 512


class Session:
    """One session: its ledger, and the engine rank that holds its prefix."""

    def __init__(self, session_id: str) -> None:
        self.id = session_id
        self.ledger = Ledger()
        self.pin: str | None = None
        """The rank of the last turn, whose cache holds the prefix: the next goes there while it answers."""
        self.calls = 0
        """Turns under way."""


class Sessions:
    """Sessions by id. One exists from its first call; one that never got a turn is forgotten with its last call."""

    def __init__(self) -> None:
        self._sessions: dict[str, Session] = {}

    @contextmanager
    def entered(self, session_id: str) -> Iterator[Session]:
        """The session for the time of one call, made if need be."""
        session = self._sessions.setdefault(session_id, Session(session_id))
        session.calls += 1
        try:
            yield session
        finally:
            session.calls -= 1
            if not session.calls and not session.ledger.turns:
                self._sessions.pop(session_id, None)

    def get(self, session_id: str) -> Session:
        """A session that has turns.

        Raises:
            UnknownSession: there is none of that id.
        """
        session = self._sessions.get(session_id)
        if session is None or not session.ledger.turns:
            raise UnknownSession(f"no turn was recorded for session {session_id!r}")
        return session


def checked_session_id(session_id: str) -> str:
    """A session id that can stand in a path.

    Raises:
        BadRequest: it is empty or too long, has an empty, ``.`` or ``..`` segment, holds ``/v1/``, or ends in
            a word of ours.
    """
    segments = session_id.split("/")
    refused = {"", ".", ".."} & set(segments) or "v1" in segments or segments[-1] in _RESERVED
    if refused or len(session_id) > _MAX_ID_CHARS or not session_id.isprintable():
        raise BadRequest(f"{session_id[:80]!r} cannot be a session id", param="session_id")
    return session_id
