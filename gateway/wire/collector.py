"""The events of one call to an engine, folded into a completion: every id with a logprob of its own, or no turn.

Answers are read as streams of events; a plain JSON answer is one event that holds everything. Every id must
come with a logprob of its own that can be evidence. What differs between versions, and is read alike here:

- logprobs name their token as ``"token": "token_id:17"`` up to 0.31, as ``"token_id": 17`` since 0.32;
- ``-9999.0`` stands for a logprob that is missing or not finite. Of a sampled id that is no evidence. Of an
  alternative it says that a grammar, or ``top_p`` and the like, left no way to sample it;
- alternatives (``top_logprobs``) all carry the sampled id before 0.22, which makes them worthless;
- ``weight_versions`` (0.32) comes with the last event only, and not at all before;
- an aborted stream may end in ``[DONE]`` without a finish reason (before 0.32);
- errors after the status line come as events inside a 200.

What comes beside ids and logprobs is read in `gateway.wire.side_arrays`.
"""

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from gateway import errors
from gateway.core.alternatives import Alternatives
from gateway.core.side_arrays import SideArray
from gateway.core.types import (
    MAX_VERSION_CHARS,
    UNKNOWN_VERSION,
    Completion,
    Evidence,
    FinishReason,
    VersionSpan,
    float32s,
    token_ids,
)
from gateway.errors import EngineProtocolError, EngineUnavailable
from gateway.wire.engine_error import loaded, reported
from gateway.wire.side_arrays import SideArrays, SideArraysAsked
from gateway.wire.sse import DONE

MISSING_LOGPROB = -9999.0
_MAX_WIDTH = 20
"""Alternatives that an engine gives for a token, unless its `--max-logprobs` says otherwise."""


def alternatives_to_ask(top_logprobs: int | None) -> int:
    """How many alternatives to ask for at each token, so that the `top_logprobs` most likely are among them.

    An engine counts the sampled id as the first, whatever its rank. At 20 one may be missing for it.
    """
    return min((top_logprobs or 0) + 1, _MAX_WIDTH)


def no_evidence(top_logprobs: int | None = None) -> Evidence:
    """Nothing sampled yet, with room for alternatives where they are asked for."""
    likely = Alternatives(alternatives_to_ask(top_logprobs), token_ids(), float32s()) if top_logprobs else None
    return Evidence(token_ids(), float32s(), likely)


class Collector:
    """Fold the events of one call into a completion.

    Feed it payloads until one of them ends the answer; `completion` then is the whole, and `partial`, at any
    time, is what has been sampled with evidence so far. Alternatives and side arrays are looked at only where the
    request asked for them, `top_logprobs` being the number of the former. Where the call goes on with an answer,
    `before` is the evidence of the calls before, which grows; the rest is of this call alone.
    """

    def __init__(
        self, top_logprobs: int | None = None, asked: SideArraysAsked | None = None, before: Evidence | None = None
    ) -> None:
        self.evidence = before or no_evidence(top_logprobs)
        """What was sampled so far, in all calls of the answer."""
        self._ids = self.evidence.ids
        self._logprobs = self.evidence.logprobs
        self._alternatives = self.evidence.alternatives
        self._start = len(self._ids)
        self.beside = SideArrays(asked or SideArraysAsked())
        """What else was said so far."""
        self._spans: object = None
        self.finish_reason: FinishReason | None = None
        self.cached_tokens: int | None = None
        """How many ids of the prompt the engine says it had in its cache; ``None`` while it does not say."""
        self.done = False

    @property
    def count(self) -> int:
        """How many ids have come in this call."""
        return len(self._ids) - self._start

    def retract(self) -> None:
        """Take back what this call said, of which something was no evidence."""
        del self._ids[self._start :], self._logprobs[self._start :]
        if self._alternatives:
            first = self._start * self._alternatives.width
            del self._alternatives.ids[first:], self._alternatives.logprobs[first:]

    def feed(self, payload: bytes) -> Sequence[int]:
        """Take one event; the ids that it brings.

        Raises:
            EngineProtocolError: the event cannot be read, or an id comes without evidence, or without the
                alternatives that were asked for, or with a mask that leaves it out.
            EngineUnavailable, EngineRefused, ContextLengthExceeded: the event reports an error.
        """
        if payload == DONE:
            self.done = True
            return ()
        event = loaded(payload)
        if not isinstance(event, dict):
            raise EngineProtocolError("the engine sent an event that is not a JSON object")
        if event.get("error") is not None:
            raise reported(event["error"], 500)
        choices = event.get("choices")
        if not isinstance(choices, list) or len(choices) > 1:
            raise EngineProtocolError("the engine sent an event without its one choice")
        self._read_usage(event.get("usage"))
        return [token_id for choice in choices for token_id in self._take(choice)]

    def _read_usage(self, usage: object) -> None:
        match usage:
            case {"prompt_tokens_details": {"cached_tokens": int(cached)}}:
                self.cached_tokens = cached

    def _take(self, choice: object) -> list[int]:
        ids = choice.get("token_ids") if isinstance(choice, dict) else None
        if not isinstance(choice, dict) or not isinstance(ids, list):
            raise EngineProtocolError("the engine sent a choice without token_ids")
        reason, spans = choice.get("finish_reason"), choice.get("weight_versions")
        if choice.get("index", 0) != 0 or (self.finish_reason and (ids or reason)):
            raise EngineProtocolError("the engine sent more than the one completion that was asked for")
        if not all(type(i) is int and 0 <= i < 1 << 32 for i in ids):
            raise EngineProtocolError("the engine sent something among token_ids that is no token id")
        if reason is not None and (not isinstance(reason, str) or reason not in set(FinishReason)):
            raise EngineProtocolError(f"the engine sent an unknown finish_reason, {_shown(reason)}")
        content = _content(ids, choice.get("logprobs"))
        logprobs = [_logprob(token_id, entry) for token_id, entry in zip(ids, content, strict=True)]
        masks = self.beside.read(choice, ids)
        if self._alternatives:
            _extend(self._alternatives, ids, content)
        self.beside.add(choice, masks)
        self._logprobs.extend(logprobs)
        self._ids.extend(ids)
        self._spans = self._spans if spans is None else spans
        self.finish_reason = FinishReason(reason) if reason else self.finish_reason
        return ids

    def completion(self) -> Completion:
        """The whole completion.

        Raises:
            EngineUnavailable: the engine ended the call before the completion was finished.
            EngineProtocolError: nothing was sampled, the version spans do not tile the ids, or a side array
                cannot be read or is one of other positions.
        """
        if self.finish_reason in (None, FinishReason.ABORT):
            raise EngineUnavailable("the engine aborted the call before the completion was finished")
        if not self.count:
            raise EngineProtocolError("the engine finished without a sampled token")
        return self._proven(self.finish_reason, self._spans, self.beside.of(self.count))

    def partial(self) -> Completion | None:
        """What was sampled so far, as an aborted completion; ``None`` if nothing was."""
        if not self.count:
            return None
        beside: Mapping[str, SideArray] = {}
        with suppress(EngineProtocolError):
            beside = self.beside.of(self.count)
        try:
            return self._proven(FinishReason.ABORT, self._spans, beside)
        except EngineProtocolError:
            return self._proven(FinishReason.ABORT, None, beside)

    def _proven(self, reason: FinishReason, entries: object, beside: Mapping[str, SideArray]) -> Completion:
        try:
            spans = _unknown(self.count) if entries is None else _version_spans(entries)
            # What was broken off may be gone on with, and then the evidence grows.
            shared = not self._start and reason is not FinishReason.ABORT
            own = self.evidence if shared else self.evidence.part(self._start, len(self._ids))
            return Completion(own.ids, own.logprobs, reason, spans, own.alternatives, beside)
        except errors.LedgerError as error:
            raise EngineProtocolError(f"the engine's weight_versions cannot be right: {error.message}") from None


def _version_spans(entries: object) -> tuple[VersionSpan, ...]:
    spans = []
    for entry in entries if isinstance(entries, list) else [None]:
        match entry:
            case {"version": str(version), "start": start, "end": end} if type(start) is type(end) is int:
                if len(version) > MAX_VERSION_CHARS:
                    raise EngineProtocolError(
                        f"the engine names a weight version of {len(version)} characters, {version:.40}…: "
                        f"{MAX_VERSION_CHARS} is the most"
                    )
                name = UNKNOWN_VERSION if version == "default" else version
                spans.append(VersionSpan(name, start, end, "engine"))
            case _:
                raise EngineProtocolError("the engine sent a malformed weight_versions")
    return tuple(spans)


def _unknown(length: int) -> tuple[VersionSpan, ...]:
    return (VersionSpan(UNKNOWN_VERSION, 0, length, "assumed"),)


def _content(ids: Sequence[int], logprobs: object) -> list[object]:
    """An entry for each of `ids`, or an error that says which evidence is missing."""
    content = logprobs.get("content") if isinstance(logprobs, dict) else None
    if not isinstance(content, list):
        content = []
        if ids:
            raise EngineProtocolError(f"the engine sent {len(ids)} token ids without logprobs")
    if len(content) != len(ids):
        raise EngineProtocolError(f"the engine sent {len(ids)} token ids but {len(content)} logprobs")
    return content


def _logprob(token_id: int, entry: object) -> float:
    if not isinstance(entry, dict):
        raise EngineProtocolError(f"the engine sent no logprob for token id {token_id}")
    named, value = entry.get("token_id", entry.get("token")), entry.get("logprob")
    if not (named == token_id and type(named) is int) and named != f"token_id:{token_id}":
        raise EngineProtocolError(f"the engine sent the logprob of {_shown(named)} for token id {token_id}")
    if not isinstance(value, int | float) or value is False or not MISSING_LOGPROB < value <= 0:
        raise EngineProtocolError(f"the engine's logprob for token id {token_id} is missing or none: {_shown(value)}")
    return float(value)


def _extend(known: Alternatives, ids: Sequence[int], content: Sequence[Any]) -> None:
    """Add the alternatives of `ids`, all or none."""
    pairs = [pair for token_id, entry in zip(ids, content, strict=True) for pair in _row(token_id, entry, known.width)]
    known.ids.extend([token_id for token_id, _ in pairs])
    known.logprobs.extend([logprob for _, logprob in pairs])


def _row(sampled: int, entry: Mapping[str, object], width: int) -> list[tuple[int, float]]:
    """The alternatives at one sampled id, or an error that says what is wrong with them."""
    listed = entry.get("top_logprobs")
    if not isinstance(listed, list):
        raise EngineProtocolError(f"the engine sent no top_logprobs for token id {sampled}, of which {width} are due")
    if len(listed) != width:
        raise EngineProtocolError(f"the engine sent {len(listed)} top_logprobs for token id {sampled}, not {width}")
    row = [_alternative(sampled, item) for item in listed]
    if len(dict(row)) != width:
        raise EngineProtocolError(
            f"the engine gave several top_logprobs of token id {sampled} one id, as vLLM does before 0.22: "
            "they need vLLM 0.22 or later"
        )
    return row


def _alternative(sampled: int, item: object) -> tuple[int, float]:
    fields: Mapping[object, object] = item if isinstance(item, dict) else {}
    named, value = fields.get("token_id", fields.get("token")), fields.get("logprob")
    if isinstance(named, str) and (written := re.fullmatch("token_id:([0-9]{1,10})", named)):
        named = int(written[1])
    if type(named) is not int or not 0 <= named < 1 << 32:
        raise EngineProtocolError(f"the engine named no id among the top_logprobs of token id {sampled}")
    if not isinstance(value, int | float) or value is False or not MISSING_LOGPROB <= value <= 0:
        what = f"{_shown(value)} among the top_logprobs of token id {sampled}"
        raise EngineProtocolError(f"the engine sent {what}, which is no logprob")
    return named, float(value)


def _shown(value: object) -> str:
    """A value of the engine's, fit for a message."""
    return repr(value)[:42] if isinstance(value, str | int | float | None) else f"a {type(value).__name__}"
