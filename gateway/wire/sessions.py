"""Sessions as JSON: what a harness says when it makes or finishes one, and what it is shown."""

import math
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import get_args

import orjson

from gateway.core.budget import Budget, Spent
from gateway.core.sampling import said
from gateway.core.terms import ClientSeed, SamplingRule, Terms
from gateway.core.types import JsonObject, Sampling
from gateway.errors import BadRequest
from gateway.wire.chat import read_sampling
from gateway.wire.fields import Fields, parse_object

_MAX_NAME_CHARS = 512
_MAX_METADATA_BYTES = 65_536
_PAGE_SESSIONS, _MAX_PAGE_SESSIONS = 100, 1000
_SAMPLING_NAMES = {parameter.name for parameter in fields(Sampling)} - {"extra_args"} | {
    "vllm_xargs",
    "max_completion_tokens",
}
"""By these chat requests know them."""
_CREATION_NAMES = (
    *("session_id", "group_id", "rollout_id", "metadata", "budget"),
    *("sampling_params", "forced_sampling_params", "sampling", "client_seed"),
)
_ACK_NAMES = ("session_ids",)
_FINISH_NAMES = ("reward", "metadata")


@dataclass(frozen=True, slots=True)
class Creation:
    """A session to be made."""

    session_id: str | None
    """``None`` leaves it to us."""
    terms: Terms


@dataclass(frozen=True, slots=True)
class Finish:
    """What is said about a session at its end."""

    reward: float | None
    """``None`` leaves the reward that was given before."""
    metadata: JsonObject
    """The session's metadata with what was added."""


@dataclass(frozen=True, slots=True)
class Page:
    """Which sessions to list."""

    after: int
    """The number of the last session of the page before."""
    most: int
    group_id: str | None


def decode_creation(body: bytes) -> Creation:
    """The session that a body asks for; an empty one asks for nothing in particular.

    Raises:
        BadRequest: the body is not JSON, or a value is ill, or a name is not known.
    """
    asked = parse_object(body or b"{}")
    _refuse_unknown(asked, _CREATION_NAMES)
    given = asked.nested("budget", asked.mapping("budget"))
    names = [bound.name for bound in fields(Budget)]
    _refuse_unknown(given, names)
    terms = Terms(
        group_id=asked.text("group_id", 1, _MAX_NAME_CHARS),
        rollout_id=asked.text("rollout_id", 1, _MAX_NAME_CHARS),
        metadata=asked.mapping("metadata", _MAX_METADATA_BYTES),
        sampling=_sampling(asked, "sampling_params"),
        forced=_sampling(asked, "forced_sampling_params"),
        budget=Budget(**{name: given.integer(name, 1) for name in names}),
        sampling_rule=asked.one_of("sampling", get_args(SamplingRule)),
        client_seed=asked.one_of("client_seed", get_args(ClientSeed)),
    )
    return Creation(asked.text("session_id", 1, _MAX_NAME_CHARS), terms)


def _sampling(asked: Fields, name: str) -> Sampling:
    given = asked.nested(name, asked.mapping(name))
    _refuse_unknown(given, _SAMPLING_NAMES)
    return read_sampling(given)


def _refuse_unknown(given: Fields, known: Collection[str]) -> None:
    """A misspelt name would be missed in every turn."""
    unknown = [f"{given.path}{name}"[:80] for name in given.names() if name not in known]
    if unknown:
        what = f"{', '.join(unknown[:8])} is not known here: these are {', '.join(sorted(known))}"
        raise BadRequest(what, param=unknown[0])


def decode_finish(body: bytes, metadata: JsonObject) -> Finish:
    """What a body says at the end of a session that has `metadata`; an empty one says nothing.

    Raises:
        BadRequest: the body is not JSON, a value is ill, a name is not known, or the metadata grow too large.
    """
    asked = parse_object(body or b"{}")
    _refuse_unknown(asked, _FINISH_NAMES)
    merged = {**metadata, **asked.mapping("metadata")}
    whole = Fields({"metadata": merged}, "").mapping("metadata", _MAX_METADATA_BYTES)
    return Finish(asked.number("reward", -math.inf, math.inf), whole)


def decode_page(query: Mapping[str, str]) -> Page:
    """The page that a query asks for.

    Raises:
        BadRequest: `cursor` is none of ours, or `limit` no number between 1 and 1000.
    """
    cursor, limit = query.get("cursor", "0"), query.get("limit", str(_PAGE_SESSIONS))
    if re.fullmatch(r"[0-9]{1,15}", cursor) is None:
        raise BadRequest("cursor must be the `next` of an earlier page", param="cursor")
    if re.fullmatch(r"[0-9]{1,4}", limit) is None or not 1 <= int(limit) <= _MAX_PAGE_SESSIONS:
        raise BadRequest(f"limit must be a number between 1 and {_MAX_PAGE_SESSIONS}", param="limit")
    return Page(int(cursor), int(limit), query.get("group_id"))


def decode_ack(body: bytes) -> list[str]:
    """The sessions that a body says are safe elsewhere.

    Raises:
        BadRequest: the body is not JSON, or not a list of ids under ``session_ids``.
    """
    asked = parse_object(body)
    _refuse_unknown(asked, _ACK_NAMES)
    ids = asked.items("session_ids")
    if asked.raw("session_ids") is None or not all(isinstance(session_id, str) for session_id in ids):
        raise asked.error("session_ids", "must be a list of session ids")
    return [str(session_id) for session_id in ids]


@dataclass(frozen=True, slots=True)
class Freed:
    """What became of sessions that were said to be safe elsewhere."""

    freed: Sequence[str]
    """They are deleted, now or before."""
    unknown: Sequence[str]
    open: Sequence[str]
    """They are not finished, or have calls under way: nothing happens to them."""


def encode_freed(freed: Freed) -> bytes:
    """The answer to ``POST /trajectories/ack``."""
    return orjson.dumps(freed)


def encode_created(session_id: str, base_url: str) -> bytes:
    """Where a new session is spoken to: an SDK's `base_url`."""
    return orjson.dumps({"session_id": session_id, "base_url": base_url})


@dataclass(frozen=True, slots=True)
class SessionState:
    """A session at one moment."""

    session_id: str
    terms: Terms
    spent: Spent
    turns_in_flight: int
    finished: bool
    reward: float | None
    created_s: float


def session_object(state: SessionState) -> dict[str, object]:
    """A session as ``GET /sessions/{sid}`` shows it."""
    terms, spent = state.terms, state.spent
    return {
        "session_id": state.session_id,
        "group_id": terms.group_id,
        "rollout_id": terms.rollout_id or state.session_id,
        "metadata": terms.metadata,
        "status": "finished" if state.finished else "open",
        "reward": state.reward,
        "created_s": round(state.created_s, 3),
        "turns": spent.turns,
        "aborted_turns": spent.aborted_turns,
        "turns_in_flight": state.turns_in_flight,
        "prompt_tokens": spent.prompt_tokens,
        "completion_tokens": spent.completion_tokens,
        "budget": asdict(terms.budget),
        "sampling_params": _shown(terms.sampling),
        "forced_sampling_params": _shown(terms.forced),
        "sampling": terms.sampling_rule,
        "client_seed": terms.client_seed,
    }


def _shown(sampling: Sampling) -> dict[str, object]:
    return {"vllm_xargs" if name == "extra_args" else name: value for name, value in said(sampling).items()}


def encode_session(state: SessionState) -> bytes:
    """The answer to ``GET /sessions/{sid}``."""
    return orjson.dumps(session_object(state))


def encode_sessions(states: Sequence[SessionState], following: int | None) -> bytes:
    """One page of sessions, and the cursor of the page that follows."""
    data = [session_object(state) for state in states]
    return orjson.dumps({"data": data, "next": None if following is None else str(following)})
