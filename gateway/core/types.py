"""The words that every room shares: messages, requests, completions."""

import math
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Literal

from gateway.errors import LedgerError

Role = Literal["system", "user", "assistant", "tool"]
JsonObject = Mapping[str, object]
Tools = Sequence[JsonObject]
Status = Literal["complete", "aborted"]


def token_ids(ids: Sequence[int] = ()) -> "array[int]":
    """Token ids as they are stored: four bytes each."""
    return array("I", ids)


def float32s(values: Sequence[float] = ()) -> "array[float]":
    """Logprobs as they are stored. Engines compute them in float32, so nothing is lost."""
    return array("f", values)


class FinishReason(StrEnum):
    """Why the engine stopped sampling."""

    STOP = "stop"
    """A stop id or a stop string was sampled."""
    LENGTH = "length"
    """`max_tokens`, or the model's context, was used up."""
    ABORT = "abort"
    """Somebody ended the call: the client left, or the engine was told to drop it."""
    REPETITION = "repetition"
    """The engine's own loop detection fired."""


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One call that an assistant message makes."""

    id: str
    """The id that the client knows."""
    name: str
    arguments: str
    """JSON text, as the client sees it."""
    own_id: str | None = None
    """The id that the model itself wrote, where its format has one; what a render must show."""


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a history, its text parts already joined into `content`."""

    role: Role
    content: str = ""
    reasoning: str | None = None
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str | None = None
    name: str | None = None


Messages = Sequence[Message]


@dataclass(frozen=True, slots=True)
class Answer:
    """A completion as the client sees it."""

    message: Message
    flags: tuple[str, ...] = ()
    """What was odd about it, such as a malformed tool call."""


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a completion comes from, and under which rule its prompt was built."""

    engine: str
    rank: int
    thinking_retention: str | None = None
    """Which reasoning of earlier turns the renderer keeps in its prompts; ``None`` when it does not say."""


@dataclass(frozen=True, slots=True)
class Sampling:
    """How to sample; ``None`` leaves a parameter to the engine's default."""

    max_tokens: int | None = None
    min_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    repetition_penalty: float | None = None
    seed: int | None = None
    stop: tuple[str, ...] = ()
    include_stop_str_in_output: bool | None = None
    ignore_eos: bool | None = None
    logit_bias: Mapping[str, float] | None = None
    extra_args: JsonObject | None = None


@dataclass(frozen=True, slots=True)
class Labels:
    """What a harness says about a turn beside its messages."""

    tags: Mapping[str, str] = field(default_factory=dict)
    """Names and values, such as the id of the sub-agent that asked."""
    train: bool = True
    """Whether the turn is to be trained on; its tokens are context otherwise."""


@dataclass(frozen=True, slots=True)
class TurnRequest:
    """What an agent asked for, whatever dialect it spoke."""

    messages: tuple[Message, ...]
    model: str | None = None
    tools: tuple[JsonObject, ...] = ()
    sampling: Sampling = field(default_factory=Sampling)
    template_kwargs: JsonObject = field(default_factory=dict)
    priority: int | None = None
    cache_salt: str | None = None
    return_token_ids: bool = False
    n: int = 1
    """How many answers; each is a turn of its own, a sibling of the others."""
    constraint: JsonObject | None = None
    """What the whole answer must be, in the words of vLLM's ``structured_outputs``; ``None`` leaves it free."""
    forced_tools: tuple[str, ...] = ()
    """Names of tools, one of which the answer must call; empty leaves that to the model. Never with `constraint`."""
    labels: Labels = field(default_factory=Labels)
    session_hint: str | None = None
    """A session id found in the body; the path and the header come first."""


@dataclass(frozen=True, slots=True)
class VersionSpan:
    """The policy version that sampled completion ids `start` to `end` (exclusive)."""

    version: str
    start: int
    end: int
    source: Literal["engine", "fenced", "assumed"] = "engine"


UNKNOWN_VERSION = "unknown"


@dataclass(frozen=True, slots=True)
class Completion:
    """What an engine sampled, with the evidence for each id.

    Raises:
        LedgerError: there is no id; ids and logprobs differ in number; a logprob is not a
            finite number at or below zero; or the spans do not tile the ids.
    """

    ids: "array[int]"
    """Sampled ids, a sampled stop id included; shape ``(C,)``."""
    logprobs: "array[float]"
    """Natural-log probability of each sampled id; shape ``(C,)``, nats."""
    finish_reason: FinishReason
    spans: tuple[VersionSpan, ...]
    """Policy versions, tiling ``[0, C)``."""

    def __post_init__(self) -> None:
        if not self.ids:
            raise LedgerError("a completion without a sampled id proves nothing")
        if len(self.ids) != len(self.logprobs):
            raise LedgerError(f"{len(self.ids)} ids but {len(self.logprobs)} logprobs")
        if not all(math.isfinite(value) and value <= 0 for value in self.logprobs):
            raise LedgerError("a logprob must be a finite number at or below zero")
        position = 0
        for span in self.spans:
            if not span.start == position < span.end:
                raise LedgerError(f"version spans overlap, leave a gap or are empty: {self.spans}")
            position = span.end
        if position != len(self.ids):
            raise LedgerError(f"version spans end at {position}, not at {len(self.ids)} ids")

    def head(self, length: int, reason: FinishReason) -> "Completion":
        """The first `length` ids with their evidence, ended for `reason`; what was sampled beyond is discarded."""
        kept = [span for span in self.spans if span.start < length]
        spans = tuple(replace(span, end=min(span.end, length)) for span in kept)
        return Completion(self.ids[:length], self.logprobs[:length], reason, spans)
