"""The table of calls, which both clients make: method, path, body, and how the answer is read."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypedDict, TypeVar
from urllib.parse import quote

import orjson

from gateway.client.shapes import (
    Created,
    EngineState,
    Freed,
    JsonObject,
    PauseState,
    PolicyState,
    Removed,
    Row,
    SessionState,
    Turn,
)

Read = TypeVar("Read")
Item = TypeVar("Item")


class Page(TypedDict, Generic[Item]):
    """One page of a list."""

    data: list[Item]
    next: str | None


@dataclass(frozen=True, slots=True)
class Call(Generic[Read]):
    """One call, and what may be done when it fails."""

    method: str
    path: str
    read: Callable[[bytes], Read] = orjson.loads
    query: Mapping[str, str] = field(default_factory=dict)
    body: JsonObject | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    """Beside those of every call."""
    answers: frozenset[int] = frozenset({200})
    """Statuses that are answers; all others are refusals."""
    repeatable: bool = True
    """Whether it may be made again when nobody knows whether it was carried out."""
    done: tuple[str, Read] | None = None
    """The code with which a repetition is refused because the first try was carried out, and what that came to."""
    timeout_s: float | None = None
    """For one try; ``None`` leaves it to the client."""
    once: bool = False
    """Not tried again, whatever becomes of it."""


def path_of(session_id: str) -> str:
    """The path of a session.

    Raises:
        ValueError: the path would be that of something else: of another session, or of all.
    """
    if {"", ".", ".."} & set(session_id.split("/")):
        raise ValueError(f"{session_id!r} cannot be a session id: it or a part between its slashes is empty, . or ..")
    return f"/sessions/{quote(session_id)}"


def base_url_of(url: str, session_id: str) -> str:
    """Where a session's agent speaks to it, at the gateway of this URL."""
    return f"{url}{path_of(session_id)}/v1"


def create_session(url: str, session_id: str, terms: Mapping[str, object]) -> Call[Created]:
    """A session made. Its id is ours, so that one that is there when a lost call is repeated is the one it made.

    The header says it again, for balancers, which hash on it and read no bodies.
    """
    body = {name: value for name, value in terms.items() if value is not None} | {"session_id": session_id}
    made = Created(session_id=session_id, base_url=base_url_of(url, session_id))
    headers = {"X-Session-ID": session_id} if session_id.isprintable() else {}  # the gateway refuses others
    answers = frozenset({201})
    return Call("POST", "/sessions", body=body, headers=headers, answers=answers, done=("session_exists", made))


def show_session(session_id: str) -> Call[SessionState]:
    """A session as it is."""
    return Call("GET", path_of(session_id))


def list_sessions(query: Mapping[str, object]) -> Call[Page[SessionState]]:
    """One page of the sessions."""
    return Call("GET", "/sessions", query=words(query))


def finish_session(session_id: str, reward: float | None, metadata: JsonObject | None) -> Call[SessionState]:
    """A session finished, or finished again with another reward."""
    said = {"reward": reward, "metadata": metadata}
    body = {name: value for name, value in said.items() if value is not None}
    return Call("POST", f"{path_of(session_id)}/finish", body=body)


def delete_session(session_id: str) -> Call[None]:
    """A session deleted, for good."""
    return Call("DELETE", path_of(session_id), _nothing, answers=frozenset({204}))


def list_turns(session_id: str, query: Mapping[str, object]) -> Call[Page[Turn]]:
    """One page of a session's turns."""
    return Call("GET", f"{path_of(session_id)}/turns", query=words(query))


def list_rows(session_id: str | None, query: Mapping[str, object]) -> Call[Page[Row]]:
    """One page of rows: of a session, or of many."""
    return Call("GET", f"{'' if session_id is None else path_of(session_id)}/trajectories", query=words(query))


def free_sessions(session_ids: list[str]) -> Call[Freed]:
    """Sessions freed whose rows are safe elsewhere."""
    return Call("POST", "/trajectories/ack", body={"session_ids": session_ids})


def list_engines() -> Call[list[EngineState]]:
    """All engines."""
    return Call("GET", "/admin/engines", _data)


def add_engine(url: str) -> Call[EngineState]:
    """An engine more."""
    return Call("POST", "/admin/engines", body={"url": url})


def drain_engine(url: str, rank: int | None, *, back: bool) -> Call[EngineState]:
    """An engine, or one rank of it, that gets no new turns, or gets them again."""
    chosen = {} if rank is None else {"rank": rank}
    return Call("POST", "/admin/engines", body={"url": url, "draining": not back, **chosen})


def remove_engine(url: str) -> Call[Removed]:
    """An engine less. A second removal is refused, and cannot say how many calls the first interrupted."""
    return Call("DELETE", "/admin/engines", body={"url": url}, repeatable=False)


def show_policy() -> Call[PolicyState]:
    """The version that was announced last."""
    return Call("GET", "/admin/policy")


def announce_policy(version: str) -> Call[PolicyState]:
    """Another version; to announce the current one again changes nothing."""
    return Call("POST", "/admin/policy", body={"version": version})


def show_pauses() -> Call[PauseState]:
    """What is paused."""
    return Call("GET", "/admin/pause")


def resume(owner: str, version: str | None) -> Call[PauseState]:
    """The end of an owner's pause; to end what is not there is no error."""
    return Call("POST", "/admin/resume", body={"owner": owner} | ({} if version is None else {"version": version}))


def is_ready() -> Call[bool]:
    """Whether some rank takes turns, and new sessions are taken."""
    return Call("GET", "/ready", _is_ready, answers=frozenset({200, 503}))


def read_metrics() -> Call[str]:
    """Prometheus' text format."""
    return Call("GET", "/metrics", bytes.decode)


def words(query: Mapping[str, object]) -> dict[str, str]:
    """A query as it stands in a URL: lists with commas, ``true`` and ``false``, and nothing for ``None``."""
    return {name: _word(value) for name, value in query.items() if value is not None}


def _word(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def _data(body: bytes) -> Any:  # JSON
    return orjson.loads(body)["data"]


def _is_ready(body: bytes) -> bool:
    return bool(orjson.loads(body)["status"] == "ready")


def _nothing(_body: bytes) -> None:
    return None
