"""Engines as JSON: what an operator says of them, and what it is shown."""

import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from urllib.parse import urlsplit

import orjson

from gateway.core.health import HealthState
from gateway.core.sampling import LogprobsMode
from gateway.errors import BadRequest
from gateway.wire.engine_error import loaded
from gateway.wire.engine_facts import MOST_RANKS
from gateway.wire.fields import parse_object

_SERVER_URL = re.compile(r"https?://(?:[^/@#?\s\[\]:]+|\[[0-9A-Fa-f:.]+\])(?::([0-9]{1,5}))?(?:/[^@#?\s]*)?")
_RANKS = re.compile("[1-9][0-9]{0,3}")
_MOST_PORTS = 65_535
_MAX_URL_CHARS = 2048
_NAMES = ("url", "rank", "draining")
URL_WANTED = "must be like http://host:port, with #dp=N at its end for N data-parallel ranks"


@dataclass(frozen=True, slots=True)
class EngineAsked:
    """What is to become of an engine."""

    url: str
    """With its ``#dp=N``, if it was given."""
    draining: bool | None
    """Whether it, or one rank of it, gets no new turns; ``None`` to have it in the first place."""
    rank: int | None
    """``None`` for all of its ranks."""


@dataclass(frozen=True, slots=True)
class RankState:
    """One rank, as it is shown."""

    rank: int
    health: HealthState
    failures: int
    """Turns that failed in a row."""
    draining: bool
    in_flight: int
    waiting: int
    """Turns that wait here for it."""
    sessions: int
    resident_tokens: int
    """What these take up in its KV cache, idle ones too."""
    capacity_tokens: int | None
    """What that holds; ``None`` where the engine does not say."""
    running: int | None
    """What the engine itself says that it is at, whoever sent it; ``None`` where it does not say."""
    queued: int | None
    """What the engine says that waits in it."""
    kv_usage: float | None
    """The share of its KV cache in use, as the engine says; 1 is all of it."""


@dataclass(frozen=True, slots=True)
class EngineState:
    """One engine, as it is shown."""

    url: str
    answers: bool
    trouble: str | None
    """Why it does not; ``None`` while it does."""
    version: str | None
    models: Sequence[str]
    window: int | None
    """Longest prompt and completion together, in tokens."""
    logprobs: LogprobsMode
    ranks: Sequence[RankState]


def is_server_url(url: str) -> bool:
    """Whether that can be the base URL of a server: no query, and no user, whose password would be shown."""
    found = _SERVER_URL.fullmatch(url)
    if found is None or not url.isprintable() or not 1 <= int(found[1] or 1) <= _MOST_PORTS:
        return False
    try:
        return bool((urlsplit(url).hostname or "").encode("idna"))
    except ValueError:  # no host has such a name, or such an address
        return False


def is_engine_url(url: str) -> bool:
    """Whether that can be the base URL of a vLLM server, with the number of its ranks at its end or without."""
    base, given, ranks = url.partition("#dp=")
    return is_server_url(base) and (not given or bool(_RANKS.fullmatch(ranks) and int(ranks) <= MOST_RANKS))


def decode_url(body: bytes) -> str:
    """The engine that a body names, and nothing else.

    Raises:
        BadRequest: as `decode_engine`; or it says more.
    """
    asked = decode_engine(body)
    if asked.draining is not None:
        message = "an engine is removed with all of its ranks: to give it, or a rank, no new turns, POST this instead"
        raise BadRequest(message, param="draining" if asked.rank is None else "rank")
    return asked.url


def decode_engine(body: bytes) -> EngineAsked:
    """The engine that a body names, and what is to become of it.

    Raises:
        BadRequest: the body is not JSON, a value is ill, or a name is not known.
    """
    asked = parse_object(body or b"{}")
    for name in asked.names():
        if name not in _NAMES:
            raise BadRequest(f"{name[:80]} is not known here: these are {', '.join(_NAMES)}", param=name[:80])
    url = asked.text("url", 1, _MAX_URL_CHARS)
    if url is None or not is_engine_url(url):
        raise asked.error("url", URL_WANTED)
    rank, draining = asked.integer("rank", 0), asked.choice("draining")
    if rank is not None and draining is None:
        raise asked.error("rank", "goes with draining only: how many ranks there are is said by #dp=N in the url")
    return EngineAsked(url, draining, rank)


def encode_engine(state: EngineState) -> bytes:
    """One engine."""
    return orjson.dumps(asdict(state))


def encode_engines(states: Sequence[EngineState]) -> bytes:
    """All of them, on one page."""
    return orjson.dumps({"data": [asdict(state) for state in states], "next": None})


def encode_removed(url: str, interrupted: int) -> bytes:
    """An engine that is none of ours any more, and how many calls to it were carried on elsewhere."""
    return orjson.dumps({"url": url, "removed": True, "interrupted": interrupted})


def encode_models(lists: Sequence[bytes]) -> bytes:
    """The models of several engines, each told by one of them, as one list; of those of one id the first is shown."""
    cards: dict[str, object] = {}
    for body in lists:
        told = loaded(body)
        listed = told.get("data") if isinstance(told, dict) else None
        for card in listed if isinstance(listed, list) else ():
            if isinstance(card, dict) and isinstance(card.get("id"), str):
                cards.setdefault(card["id"], card)
    return orjson.dumps({"object": "list", "data": list(cards.values())})
