"""The southbound codec: vLLM's ``POST /inference/v1/generate``, 0.20 to 0.32.

Answers are read as streams of events; a plain JSON answer is one event that holds everything. Every id must
come with a logprob of its own that can be evidence. What differs between versions, and is read alike here:

- logprobs name their token as ``"token": "token_id:17"`` up to 0.31, as ``"token_id": 17`` since 0.32;
- ``-9999.0`` stands for a logprob that is missing or not finite;
- ``weight_versions`` (0.32) comes with the last event only, and not at all before;
- an aborted stream may end in ``[DONE]`` without a finish reason (before 0.32);
- errors after the status line come as events inside a 200.
"""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict

import orjson

from gateway.core.types import UNKNOWN_VERSION, Completion, FinishReason, Sampling, TurnRequest, VersionSpan
from gateway.core.types import float32s as _float32s
from gateway.core.types import token_ids as _token_ids
from gateway.errors import (
    ContextLengthExceeded,
    EngineProtocolError,
    EngineRefused,
    EngineUnavailable,
    GatewayError,
)

MISSING_LOGPROB = -9999.0
STREAM_INTERVAL_TOKENS = 8
"""Ids per event, where the engine can (0.27 and later): an event costs far more than an id."""

_DONE = b"[DONE]"
_ENABLE_SCALE_OUT = "the engine does not serve /inference/v1/generate: restart `vllm serve` with --enable-scale-out"


def encode_request(
    ids: Sequence[int], request: TurnRequest, *, max_tokens: int, stop_token_ids: Sequence[int]
) -> bytes:
    """The body of one call for one completion of the prompt `ids`.

    The renderer's stop ids are left out under `ignore_eos`, which they would defeat. Special tokens stay in
    the engine's text, since that is the text in which it looks for stop strings.
    """
    sampling = {
        **_given(request.sampling),
        "max_tokens": max_tokens,
        "logprobs": 1,
        "skip_special_tokens": False,
        "stream_interval": STREAM_INTERVAL_TOKENS,
    }
    if stop_token_ids and not request.sampling.ignore_eos:
        sampling["stop_token_ids"] = list(stop_token_ids)
    body: dict[str, object] = {"token_ids": ids, "sampling_params": sampling, "stream": True}
    optional = {"model": request.model, "priority": request.priority, "cache_salt": request.cache_salt}
    body |= {name: value for name, value in optional.items() if value is not None}
    return orjson.dumps(body)


def _given(sampling: Sampling) -> dict[str, object]:
    return {
        name: value
        for name, value in asdict(sampling).items()
        if value is not None and value is not False and value != ()
    }


class Collector:
    """Fold the events of one call into a completion.

    Feed it payloads until one of them ends the answer; `completion` then is the whole, and `partial`, at any
    time, is what has been sampled with evidence so far.
    """

    def __init__(self) -> None:
        self._ids = _token_ids()
        self._logprobs = _float32s()
        self._spans: object = None
        self.finish_reason: FinishReason | None = None
        self.done = False

    def feed(self, payload: bytes) -> None:
        """Take one event.

        Raises:
            EngineProtocolError: the event cannot be read, or an id comes without evidence.
            EngineUnavailable, EngineRefused, ContextLengthExceeded: the event reports an error.
        """
        if payload == _DONE:
            self.done = True
            return
        event = _object(payload)
        if "error" in event:
            raise _reported(event["error"])
        choices = event.get("choices")
        if not isinstance(choices, list) or len(choices) > 1:
            raise EngineProtocolError("the engine sent an event without its one choice")
        for choice in choices:
            self._take(choice)

    def _take(self, choice: object) -> None:
        if not isinstance(choice, dict):
            raise EngineProtocolError("the engine sent a choice that is not an object")
        ids = choice.get("token_ids")
        if not isinstance(ids, list) or not all(type(i) is int and 0 <= i < 1 << 32 for i in ids):
            raise EngineProtocolError("the engine sent a choice without token_ids")
        logprobs = _logprobs(ids, choice.get("logprobs"))
        self._ids.extend(ids)
        self._logprobs.extend(logprobs)
        self._spans = choice.get("weight_versions") or self._spans
        reason = choice.get("finish_reason")
        if reason is not None:
            if reason not in FinishReason.__members__.values():
                raise EngineProtocolError(f"the engine sent an unknown finish_reason {str(reason)[:40]!r}")
            self.finish_reason = FinishReason(reason)

    def completion(self) -> Completion:
        """The whole completion.

        Raises:
            EngineUnavailable: the engine ended the call before the completion was finished.
            EngineProtocolError: nothing was sampled, or the version spans do not tile the ids.
        """
        if self.finish_reason in (None, FinishReason.ABORT):
            raise EngineUnavailable("the engine aborted the call before the completion was finished")
        if not self._ids:
            raise EngineProtocolError("the engine finished without a sampled token")
        spans = self._tiling()
        if spans is None:
            raise EngineProtocolError(f"the engine's weight_versions do not tile its {len(self._ids)} tokens")
        return Completion(self._ids, self._logprobs, self.finish_reason, spans)

    def partial(self) -> Completion | None:
        """What was sampled so far, as an aborted completion; ``None`` if nothing was."""
        if not self._ids:
            return None
        spans = self._tiling() or _unknown(len(self._ids))
        return Completion(self._ids, self._logprobs, FinishReason.ABORT, spans)

    def _tiling(self) -> tuple[VersionSpan, ...] | None:
        """The version spans, ``unknown`` if the engine sent none; ``None`` if they do not tile the ids."""
        if self._spans is None:
            return _unknown(len(self._ids))
        spans: list[VersionSpan] = []
        position = 0
        for entry in self._spans if isinstance(self._spans, list) else [None]:
            span = _span(entry)
            if span is None or span.start != position or span.end <= position:
                return None
            spans.append(span)
            position = span.end
        return tuple(spans) if position == len(self._ids) else None


def _span(entry: object) -> VersionSpan | None:
    match entry:
        case {"version": str(version), "start": int(start), "end": int(end)}:
            return VersionSpan(UNKNOWN_VERSION if version == "default" else version, start, end, "engine")
    return None


def _unknown(length: int) -> tuple[VersionSpan, ...]:
    return (VersionSpan(UNKNOWN_VERSION, 0, length, "assumed"),)


def _logprobs(ids: Sequence[int], logprobs: object) -> list[float]:
    """The logprob of each of `ids`, or an error that says which evidence is missing."""
    if not ids:
        return []
    content = logprobs.get("content") if isinstance(logprobs, dict) else None
    if not isinstance(content, list):
        raise EngineProtocolError(f"the engine sent {len(ids)} token ids without logprobs")
    if len(content) != len(ids):
        raise EngineProtocolError(f"the engine sent {len(ids)} token ids but {len(content)} logprobs")
    return [_logprob(token_id, entry) for token_id, entry in zip(ids, content, strict=True)]


def _logprob(token_id: int, entry: object) -> float:
    if not isinstance(entry, dict):
        raise EngineProtocolError(f"the engine sent no logprob for token id {token_id}")
    named = entry.get("token_id", entry.get("token"))
    if named not in (token_id, f"token_id:{token_id}"):
        raise EngineProtocolError(f"the engine sent the logprob of {str(named)[:40]!r} for token id {token_id}")
    value = entry.get("logprob")
    if not isinstance(value, int | float) or value == MISSING_LOGPROB or not math.isfinite(value):
        raise EngineProtocolError(f"the engine's logprob for token id {token_id} is missing ({str(value)[:20]})")
    if value > 0:
        raise EngineProtocolError(f"the engine's logprob for token id {token_id} is above zero ({value})")
    return float(value)


def decode_error(status: int, body: bytes) -> GatewayError:
    """What an answer other than 200 means for the caller, and what to do about it."""
    try:
        answer: object = orjson.loads(body)
    except orjson.JSONDecodeError:
        answer = {}
    error = answer.get("error") if isinstance(answer, dict) else None
    if status == 401:
        return EngineProtocolError("the engine wants an API key: start the gateway with --engine-key")
    if status == 403 or (status in (404, 405) and not isinstance(error, dict)):
        return EngineProtocolError(_ENABLE_SCALE_OUT)
    return _reported(error, status)


def _reported(error: object, status: int = 500) -> GatewayError:
    fields: Mapping[object, object] = error if isinstance(error, dict) else {"message": error or ""}
    code = fields.get("code")
    status = code if isinstance(code, int) and 400 <= code < 600 else status
    text = _cleaned(str(fields.get("message") or ""))
    if "maximum model length" in text or "maximum context length" in text:
        return ContextLengthExceeded(text)
    if status >= 500:
        return EngineUnavailable(f"the engine failed ({status}): {text}")
    return EngineRefused(f"the engine refused the request ({status}): {text}", status=status)


def _cleaned(text: str) -> str:
    """An engine's message without what old versions put into it: the request's token ids and file paths."""
    if re.match(r"\d+ validation error", text):
        text = "; ".join(re.findall(r"'msg': ['\"](.*?)['\"], '", text)) or "the request is not valid"
    text = re.sub(r"\[\s*-?\d+(,\s*-?\d+)+[^\]]*\]?", "[…]", text.partition("\n")[0])
    return re.sub(r"(/[\w.-]+){2,}", "…", text)[:300]


def _object(payload: bytes) -> dict[str, object]:
    try:
        event = orjson.loads(payload)
    except orjson.JSONDecodeError:
        event = None
    if not isinstance(event, dict):
        raise EngineProtocolError("the engine sent an event that is not a JSON object")
    return event
