"""Pauses and policy versions as JSON: what a trainer says, and what it is told."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from string import ascii_letters, digits, punctuation
from typing import get_args
from urllib.parse import quote

import orjson

from gateway.core.pause import Mode, PausesInForce, Scope
from gateway.core.types import MAX_VERSION_CHARS, UNKNOWN_VERSION, JsonObject
from gateway.core.versions import Announced
from gateway.errors import BadRequest
from gateway.wire.fields import Fields, parse_object

NOBODY = "default"
"""The owner of pauses that name none."""
_MAX_OWNER_CHARS = 256
_PLAIN = (ascii_letters + digits + punctuation).replace("%", "")
_MIN_LEASE_S, _MAX_LEASE_S = 0.001, 86_400.0


@dataclass(frozen=True, slots=True)
class PauseAsked:
    """A pause as a trainer asks for it."""

    mode: Mode
    scope: Scope
    owner: str
    lease_s: float | None
    """``None`` leaves it to the setting."""


@dataclass(frozen=True, slots=True)
class ResumeAsked:
    """The end of one owner's pause, or of all."""

    owner: str | None
    version: str | None
    """What is in the engines now; ``None`` says nothing of it."""


def decode_pause(body: bytes) -> PauseAsked:
    """The pause that a body asks for.

    Raises:
        BadRequest: the body is not JSON, a value is ill, or a name is not known.
    """
    asked = _read(body, ("mode", "scope", "owner", "lease_s"))
    mode: Mode | None = asked.one_of("mode", get_args(Mode))
    scope: Scope = asked.one_of("scope", get_args(Scope)) or "all"
    if mode is None:
        raise asked.error("mode", f"is required, one of {', '.join(get_args(Mode))}")
    if scope == "new_sessions" and mode != "hold":
        raise asked.error("scope", f"new_sessions goes with the mode hold only: {mode} is for all that is under way")
    owner = asked.text("owner", 1, _MAX_OWNER_CHARS) or NOBODY
    return PauseAsked(mode, scope, owner, asked.number("lease_s", _MIN_LEASE_S, _MAX_LEASE_S))


def decode_resume(body: bytes) -> ResumeAsked:
    """Whose pause ends, and which version that brings; an empty body ends all and brings none.

    Raises:
        BadRequest: as `decode_pause`.
    """
    asked = _read(body, ("version", "owner"))
    return ResumeAsked(asked.text("owner", 1, _MAX_OWNER_CHARS), _version(asked))


def decode_policy(body: bytes) -> str:
    """The version that a body announces.

    Raises:
        BadRequest: as `decode_pause`; or it announces none.
    """
    asked = _read(body, ("version",))
    version = _version(asked)
    if version is None:
        raise asked.error("version", "is required: the name of the policy that is in the engines now")
    return version


def _read(body: bytes, known: Collection[str]) -> Fields:
    asked = parse_object(body or b"{}")
    unknown = [name[:80] for name in asked.names() if name not in known]
    if unknown:
        raise BadRequest(f"{unknown[0]} is not known here: these are {', '.join(known)}", param=unknown[0])
    return asked


def _version(asked: Fields) -> str | None:
    version = asked.text("version", 1, MAX_VERSION_CHARS)
    if version == UNKNOWN_VERSION:
        raise asked.error("version", f"must not be {UNKNOWN_VERSION!r}, which is what nobody has announced")
    if version and not version.isprintable():
        raise asked.error("version", "must consist of characters that can be printed")
    return version


def header_value(version: str) -> str:
    """A version as a header can hold it: what is not printable ASCII is percent-encoded, and the percent sign."""
    return quote(version, safe=_PLAIN, errors="replace")


def encode_pauses(
    pauses: PausesInForce, now_s: float, *, in_flight: int, waiting: int, warnings: Sequence[str]
) -> bytes:
    """What is in force, how many calls engines answer, and how many turns wait for one."""
    said = {"in_flight": in_flight, "waiting": waiting, "warnings": warnings}
    return orjson.dumps({"paused": _pauses(pauses, now_s)} | said)


def encode_draining(in_flight: int) -> bytes:
    """The gateway is about to end, when no call is in flight any more."""
    return orjson.dumps({"draining": True, "in_flight": in_flight})


def _pauses(pauses: PausesInForce, now_s: float) -> JsonObject | None:
    if pauses.held is None or pauses.until_s is None:
        return None
    owners = [
        {
            "owner": pause.owner,
            "mode": pause.mode,
            "scope": pause.scope,
            "for_s": round(now_s - pause.since_s, 3),
            "lease_left_s": _left_s(pause.until_s, now_s),
        }
        for pause in pauses
    ]
    whole = {"mode": pauses.mode or "hold", "scope": pauses.held, "lease_left_s": _left_s(pauses.until_s, now_s)}
    return whole | {"owners": owners}


def _left_s(until_s: float, now_s: float) -> float:
    return round(max(0.0, until_s - now_s), 3)


def encode_policy(current: Announced | None) -> bytes:
    """The version that was announced last; ``null`` before any was."""
    if current is None:
        return orjson.dumps({"version": None, "ordinal": 0, "source": None})
    source = "fenced" if current.fenced else "assumed"
    return orjson.dumps({"version": current.version, "ordinal": current.ordinal, "source": source})
