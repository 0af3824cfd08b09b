"""The words that every room shares: messages, requests, completions."""

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from itertools import pairwise
from typing import Literal

from gateway.core import side_arrays
from gateway.core.alternatives import Alternatives, check_logprobs
from gateway.core.side_arrays import SideArray
from gateway.errors import LedgerError

Role = Literal["system", "user", "assistant", "tool"]
JsonObject = Mapping[str, object]
Tools = Sequence[JsonObject]
Status = Literal["complete", "aborted"]
Bound = Literal["max_tokens", "budget", "context"]
"""What limits the length of an answer: its request, its session, or the model's window."""
EndedBy = Literal["stop", "tool_calls", "max_tokens", "context", "budget", "client_gone", "infra", "cancelled"]
"""How a turn ended; `docs/rows.md` says of which the model is the cause."""


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
Flag = Literal["malformed_tool_call", "unparsed", "past_stop", "parse_differs", "stop_cut", "constrained"]
"""What was odd about an answer; `docs/parsing.md` says what each means."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A completion as the client sees it."""

    message: Message
    flags: tuple[Flag, ...] = ()


@dataclass(frozen=True, slots=True)
class Delta:
    """What more of an answer can be told: a piece of one of these."""

    reasoning: str = ""
    content: str = ""
    call: ToolCall | None = None


def deltas(message: Message) -> list[Delta]:
    """An answer in one delta a part, in the order in which a model says them."""
    told = [Delta(reasoning=message.reasoning or ""), Delta(content=message.content)]
    told += [Delta(call=call) for call in message.tool_calls]
    return [delta for delta in told if delta != Delta()]


@dataclass(frozen=True, slots=True)
class RendererMark:
    """Which renderer made the prompts."""

    name: str
    """Its class, with its module."""
    version: str
    """Of the package that it comes from; ``unknown`` where that does not say."""
    template: str | None
    """SHA-256 of the tokenizer's chat template, in hexadecimal; ``None`` where it has none."""


UNKNOWN_RENDERER = RendererMark("unknown", "unknown", None)


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a completion comes from, and under which rule its prompt was built."""

    engine: str
    rank: int
    thinking_retention: str | None = None
    """Which reasoning of earlier turns the renderer keeps in its prompts; ``None`` when it does not say."""
    renderer: RendererMark = UNKNOWN_RENDERER


@dataclass(frozen=True, slots=True)
class Sampling:
    """How to sample, in vLLM's words; ``None``, or nothing in a list, leaves a parameter to the engine's default."""

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
    bad_words: tuple[str, ...] = ()
    allowed_token_ids: tuple[int, ...] = ()
    thinking_token_budget: int | None = None
    repetition_detection: Mapping[str, int] | None = None
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
    overridden: JsonObject = field(default_factory=dict)
    """Parameters that were asked for and are not in `sampling`, since the session has them otherwise."""
    template_kwargs: JsonObject = field(default_factory=dict)
    priority: int | None = None
    cache_salt: str | None = None
    return_token_ids: bool = False
    stream: bool = False
    """Whether the answer is wanted while it is made."""
    include_usage: bool = False
    """Whether a stream ends in a count of tokens."""
    n: int = 1
    """How many answers; each is a turn of its own, a sibling of the others."""
    constraint: JsonObject | None = None
    """What the whole answer must be, in the words of vLLM's ``structured_outputs``; ``None`` leaves it free."""
    forced_tools: tuple[str, ...] = ()
    """Names of tools, one of which the answer must call; empty leaves that to the model. Never with `constraint`."""
    labels: Labels = field(default_factory=Labels)
    top_logprobs: int | None = None
    """How many alternatives the answer shows beside each token's logprob; ``None`` shows no logprobs at all."""
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
MAX_VERSION_CHARS = 256
"""How long the name of a policy version may be, whoever names it: answers have it in a header."""
CutReason = Literal["lost", "engine_error", "abort", "no_finish", "stall", "pause", "removed"]
"""Why an engine's call ended before its completion did; `docs/resume.md` says what each means."""


@dataclass(frozen=True, slots=True)
class Cut:
    """Where a completion went on in another call, since the one before had ended too early."""

    position: int
    """How many ids had been sampled."""
    reason: CutReason
    from_engine: str
    from_rank: int
    to_engine: str
    to_rank: int
    kv: Literal["kept", "recomputed"]
    """Whether the ids before were read anew, by the policy of the time, or found in the rank's prefix cache."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """Sampled ids, and what an engine said of each; of one that still samples, it grows."""

    ids: "array[int]"
    logprobs: "array[float]"
    alternatives: Alternatives | None

    def part(self, start: int, end: int) -> "Evidence":
        """The ids ``[start, end)`` with what was said of them."""
        alternatives = self.alternatives.part(start, end) if self.alternatives else None
        return Evidence(self.ids[start:end], self.logprobs[start:end], alternatives)


@dataclass(frozen=True, slots=True)
class Completion:
    """What an engine sampled, with the evidence for each id.

    Raises:
        LedgerError: there is no id; ids and logprobs differ in number; a logprob is not a finite number at or below
            zero; the spans do not tile the ids; there are alternatives, but not a row of them for each id; or a side
            array speaks of other positions than it must.
    """

    ids: "array[int]"
    """Sampled ids, a sampled stop id included; shape ``(C,)``."""
    logprobs: "array[float]"
    """Natural-log probability of each sampled id; shape ``(C,)``, nats."""
    finish_reason: FinishReason
    spans: tuple[VersionSpan, ...]
    """Policy versions, tiling ``[0, C)``."""
    alternatives: Alternatives | None = None
    """Where they were asked for."""
    side_arrays: Mapping[str, SideArray] = field(default_factory=dict)
    """What else the engine said of each position, as far as it was asked and said it."""
    overshoot_tokens: int = 0
    """How many ids the engine sampled behind the stop string that ended the turn; they are discarded."""
    cuts: tuple[Cut, ...] = ()
    """Where it went on in another call, in order; positions within ``(0, C)``, each once."""

    def __post_init__(self) -> None:
        if not self.ids:
            raise LedgerError("a completion without a sampled id proves nothing")
        check_logprobs(self.ids, self.logprobs)
        likely = self.alternatives
        if likely and len(likely.ids) != len(self.ids) * likely.width:
            raise LedgerError(f"{len(likely.ids)} alternatives are no {likely.width} for each of {len(self.ids)} ids")
        side_arrays.check_lengths(self.side_arrays, len(self.ids))
        position = 0
        for span in self.spans:
            if not span.start == position < span.end:
                raise LedgerError(f"version spans overlap, leave a gap or are empty: {self.spans}")
            position = span.end
        if position != len(self.ids):
            raise LedgerError(f"version spans end at {position}, not at {len(self.ids)} ids")
        places = [0, *(cut.position for cut in self.cuts), len(self.ids)]
        if any(before >= after for before, after in pairwise(places)):
            raise LedgerError(f"cuts at {places[1:-1]} are not in order within {len(self.ids)} ids")

    @property
    def evidence(self) -> Evidence:
        """The ids and what proves them."""
        return Evidence(self.ids, self.logprobs, self.alternatives)

    def head(self, length: int, reason: FinishReason) -> "Completion":
        """The first `length` ids with their evidence, ended for `reason`; the others are only counted."""
        kept = [span for span in self.spans if span.start < length]
        spans = tuple(replace(span, end=min(span.end, length)) for span in kept)
        alternatives = self.alternatives and self.alternatives.part(0, length)
        beside = side_arrays.head(self.side_arrays, length)
        over = self.overshoot_tokens + len(self.ids) - length
        cuts = tuple(cut for cut in self.cuts if cut.position < length)
        return Completion(self.ids[:length], self.logprobs[:length], reason, spans, alternatives, beside, over, cuts)
