"""An answer of the gateway read: what a call is for, or the refusal that it got."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import orjson

from gateway.client.calls import Call
from gateway.client.errors import GatewayCallError

Read = TypeVar("Read")

_MAX_SHOWN_CHARS = 300
_RETRYABLE = (408, 409, 429)
"""Beside 5xx; the gateway says of each of them that is not with ``x-should-retry: false``."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back."""

    status: int
    headers: Mapping[str, str]
    """By names in small letters."""
    body: bytes


def value_of(call: Call[Read], answer: Answer, *, repeated: bool) -> Read:
    """What the call is for. `repeated` says that an earlier try was lost, and may have been carried out.

    Raises:
        GatewayCallError: it was refused, or what answered is no gateway.
    """
    if answer.status in call.answers:
        try:
            return call.read(answer.body)
        except (ValueError, KeyError, TypeError) as error:
            what = "the answer cannot be read: is there a gateway at this URL?"
            raise _error(call, what, answer, None, retryable=False) from error
    code, message = _told(answer)
    if repeated and call.done is not None and call.done[0] == code:
        return call.done[1]
    should = answer.headers.get("x-should-retry", "").lower() != "false"
    retryable = should and (answer.status >= 500 or answer.status in _RETRYABLE)
    raise _error(call, message, answer, code, retryable=retryable)


def _error(call: Call[Any], message: str, answer: Answer, code: str | None, *, retryable: bool) -> GatewayCallError:
    after = answer.headers.get("retry-after", "")
    return GatewayCallError(
        message,
        call=f"{call.method} {call.path}",
        status=answer.status,
        code=code,
        retryable=retryable,
        request_id=answer.headers.get("x-request-id"),
        retry_after_s=float(after) if after.isdecimal() else None,
    )


def _told(answer: Answer) -> tuple[str | None, str]:
    """The code and the words of a refusal; of something else that answered, the beginning of what it said."""
    try:
        body = orjson.loads(answer.body)
    except orjson.JSONDecodeError:
        body = None
    error = body.get("error") if isinstance(body, dict) else None
    if isinstance(error, dict) and isinstance(error.get("message"), str):
        code = error.get("code")
        return (code if isinstance(code, str) else None), error["message"]
    shown = " ".join(answer.body[:_MAX_SHOWN_CHARS].decode(errors="replace").split())
    return None, f"something that is no gateway answered: {shown or 'nothing'}"
