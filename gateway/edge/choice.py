"""One of the answers that a call asks for, and how far it got."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import TypeVar

from gateway.core.budget import Limit
from gateway.core.joining import joined
from gateway.core.ledger import PendingTurn
from gateway.core.resume import reuse_of
from gateway.core.sampling import SamplingRecord
from gateway.core.turn import Prompt
from gateway.core.types import Completion, Cut, CutReason, Evidence, FinishReason, JsonObject, TurnRequest, VersionSpan
from gateway.core.versions import Marks
from gateway.edge.sampling_plan import SamplingPlan
from gateway.render.reading import Reading
from gateway.render.stops import StopWatch
from gateway.render.translator import Translator
from gateway.wire.collector import Collector
from gateway.wire.side_arrays import SideArraysAsked

T = TypeVar("T")
_LARGE_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Plan:
    """What the answers of a call are sampled from."""

    translator: Translator
    pending: PendingTurn
    prompt: Prompt
    room_tokens: int
    """How long an answer can be in the widest window there is."""
    retention: str | None
    """Which earlier reasoning the prompt holds."""
    structured_outputs: JsonObject | None
    """What binds the answers, in vLLM's words; ``None`` where nothing does."""
    side_arrays: SideArraysAsked


@dataclass(frozen=True, slots=True)
class Part:
    """What one call of an engine has sampled of an answer."""

    completion: Completion
    settled: SamplingPlan
    cached_tokens: int | None
    """Of the prompt, with the parts before, as far as the engine says so."""
    ended: CutReason | None = None
    """Why that was too early; ``None`` where it was not, or nobody can say."""


@dataclass(frozen=True, slots=True)
class Sampled:
    """What was sampled of an answer, in one or more calls."""

    completion: Completion
    settled: SamplingPlan
    """The last call's."""
    sampling: SamplingRecord

    def head(self, length: int, reason: FinishReason) -> "Sampled":
        """The first `length` ids, up to a stop string: that was looked for at each cut, so it lies behind the last."""
        return replace(self, completion=self.completion.head(length, reason))


@dataclass(slots=True)
class Choice:
    """One of the answers that a call asks for, and how far it got. Mutable: what samples it writes it."""

    index: int
    turn_id: str
    request_id: str
    """The engine tells its calls apart by it, so each choice has its own."""
    request: TurnRequest
    prompt_tokens: int
    reading: Reading
    collector: Collector
    """Of the call under way, or else of none."""
    marks: Marks
    parts: list[Part] = field(default_factory=list)
    """What earlier calls have sampled, which the one under way goes on with."""
    discarded: list[tuple[str, Sampled]] = field(default_factory=list)
    """What was begun and could not be gone on with, each by the id of its turn."""
    settled: SamplingPlan | None = None
    """Where and how it is sampled, once it was had."""
    told: bool = False
    """Whether its client has been told something of it."""
    stops: StopWatch | None = None
    """Looks for stop strings in what was sampled since a cut, where an engine would not find one that begins before."""
    whole: Sampled | None = None
    """All of it, once it is complete."""
    failed: bool = False
    """Whether it was this one for which the call failed, and no other."""

    @property
    def evidence(self) -> Evidence:
        """What was sampled so far, in all its calls."""
        return self.collector.evidence

    def keep(self, completion: Completion | None, ended: CutReason | None = None) -> None:
        """The call under way has ended with this, and no other is begun."""
        if completion is not None:
            assert self.settled is not None  # it was sampled there
            self.parts.append(Part(completion, self.settled, self.collector.cached_tokens, ended))
        self.collector = Collector(before=self.evidence)

    def sampled(self, reason: FinishReason, limit: Limit | None = None) -> Sampled:
        """What was sampled in the calls that have ended, as a completion that ends for `reason`; there is something.

        `limit` is what it ends at, where that is not the last call's.
        """
        whole = _sampled(self.parts, self.marks, self.prompt_tokens, reason)
        return replace(whole, settled=replace(whole.settled, limit=limit or whole.settled.limit))

    def partial(self) -> Sampled | None:
        """What was sampled so far, as an aborted completion; ``None`` if nothing was."""
        ids = self.collector.partial()
        parts = self.parts
        if ids is not None:
            assert self.settled is not None  # they were sampled there
            parts = [*parts, Part(ids, self.settled, self.collector.cached_tokens)]
        return _sampled(parts, self.marks, self.prompt_tokens, FinishReason.ABORT) if parts else None


def _sampled(parts: Sequence[Part], marks: Marks, prompt_tokens: int, reason: FinishReason) -> Sampled:
    ids = parts[0].completion if len(parts) == 1 else joined([part.completion for part in parts])
    spans = marks.spans(len(ids.ids), ids.spans)
    sampling = parts[0].settled.sampling
    for part in parts[1:]:
        sampling = sampling.also(part.settled.sampling.logprobs_mode)
    whole = replace(ids, finish_reason=reason, spans=spans, cuts=tuple(_cuts(parts, spans, prompt_tokens)))
    return Sampled(whole, parts[-1].settled, sampling)


def _cuts(parts: Sequence[Part], spans: Sequence[VersionSpan], prompt_tokens: int) -> list[Cut]:
    cuts, position = [], 0
    for before, after in pairwise(parts):
        position += len(before.completion.ids)
        assert before.ended is not None  # or nothing would come after it
        left, went = before.settled.rank, after.settled.rank
        found = reuse_of(
            after.cached_tokens,
            prompt_tokens=prompt_tokens,
            same_rank=left.name == went.name,
            same_version=_version_at(spans, position - 1) == _version_at(spans, position),
        )
        place = left.engine.url, left.number, went.engine.url, went.number
        cuts.append(Cut(position, before.ended, *place, found))
    return cuts


def _version_at(spans: Sequence[VersionSpan], position: int) -> str:
    return next(span.version for span in spans if position < span.end)


async def decoded(decode: Callable[[], T], choices: Sequence[Choice]) -> T:
    """Decode what was sampled, elsewhere where that would hold up everybody else for milliseconds."""
    large = sum(choice.collector.beside.large_bytes for choice in choices) > _LARGE_BYTES
    return await asyncio.to_thread(decode) if large else decode()
