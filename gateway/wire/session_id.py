"""What may be a session id: it stands in URLs, in headers and in logs."""

from gateway.errors import BadRequest

MAX_ID_CHARS = 512
_RESERVED = ("turns", "trajectories", "finish", "v1")


def checked_session_id(session_id: str) -> str:
    """A session id that can stand in a path.

    Raises:
        BadRequest: it cannot, and why.
    """
    fault = fault_of(session_id)
    if fault is not None:
        raise BadRequest(f"{session_id[:80]!r} cannot be a session id: {fault}", param="session_id")
    return session_id


def fault_of(session_id: str) -> str | None:
    """Why this cannot be a session id; ``None`` when it can."""
    segments = session_id.split("/")
    if len(session_id) > MAX_ID_CHARS:
        return f"it has more than {MAX_ID_CHARS} characters"
    if not session_id.isprintable():
        return "it has characters that cannot be printed"
    if session_id != session_id.strip():
        return "it begins or ends with white space"
    if {"", ".", ".."} & set(segments):
        return "it is empty, or a part between its slashes is empty, . or .."
    if "v1" in segments:
        return "v1 ends the session's part of a path; does the base URL have /v1 twice?"
    return f"its last part is reserved, as are {', '.join(_RESERVED)}" if segments[-1] in _RESERVED else None
