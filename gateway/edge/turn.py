"""The life of a turn: one coroutine, read top to bottom.

    prepare → build the prompt → lease an engine → sample → parse → put → commit → answer

A call may ask for several answers: each is sampled on a lease of its own, and they are recorded together or not
at all. Stopped anywhere before put, it leaves the ledger as it was, save an aborted turn for each answer of which
ids had been sampled with evidence. Nothing is locked: two calls of one session become siblings.
"""

import asyncio
import secrets
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import TypeVar

import structlog

from gateway.core.ledger import PendingTurn
from gateway.core.prompt import build_prompt
from gateway.core.sampling import nth_seed, record
from gateway.core.turn import Prompt, Turn
from gateway.core.types import Answer, Completion, EndedBy, FinishReason, JsonObject, Message, Origin, TurnRequest
from gateway.core.versions import Versions
from gateway.edge.backends import Backends, Rank
from gateway.edge.lease import Lease
from gateway.edge.log import where
from gateway.edge.metrics import Metrics
from gateway.edge.probe import Probes
from gateway.edge.session import Session, TurnCall
from gateway.edge.side_arrays import note_missing
from gateway.edge.store import Store
from gateway.edge.tasks import together
from gateway.errors import ContextLengthExceeded, EngineProtocolError
from gateway.render.forcing import structured_outputs
from gateway.render.reading import Ending, Reading
from gateway.render.registry import Renderers
from gateway.render.room import outgrows
from gateway.render.translator import Translator
from gateway.wire.collector import Collector
from gateway.wire.generate import STREAM_INTERVAL_TOKENS, encode_request
from gateway.wire.pieces import TextOf, pieces
from gateway.wire.side_arrays import SideArraysAsked, asked_of, check_top_k
from gateway.wire.turns import turn_facts

T = TypeVar("T")
log = structlog.get_logger()

_LARGE_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Deps:
    """What taking a turn needs."""

    renderers: Renderers
    backends: Backends
    store: Store
    metrics: Metrics
    render_thread: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(1, "render"))
    """All rendering happens here, one prompt at a time: it holds the event loop up for a third of a second at 128k
    tokens. Streams are read on the event loop meanwhile, a few ids at a time: to decode changes nothing in a
    tokenizer, and to encode changes only how it treats control tokens, which the same renderer always does alike."""
    versions: Versions = field(default_factory=Versions)
    """The policy versions that turns were sampled by."""
    stream_interval_tokens: int = STREAM_INTERVAL_TOKENS
    """How many ids the engine is asked to put into one event."""
    exact_by: Probes | None = None
    """Where a turn is refused whose logprobs are not those of what is sampled from: who finds out what they are."""
    side_arrays: tuple[str, ...] = ()
    """What is kept of each turn beside ids and logprobs."""

    @property
    def text_of(self) -> TextOf:
        """What a token id says."""
        return self.renderers.text_of

    async def rendering(self, call: Callable[[], T]) -> T:
        """Run one call of a renderer off the event loop."""
        return await asyncio.get_running_loop().run_in_executor(self.render_thread, call)


@dataclass(frozen=True, slots=True)
class Plan:
    """What the answers of a call are sampled from."""

    translator: Translator
    pending: PendingTurn
    prompt: Prompt
    retention: str | None
    """Which earlier reasoning the prompt holds."""
    structured_outputs: JsonObject | None
    """What binds the answers, in vLLM's words; ``None`` where nothing does."""
    side_arrays: SideArraysAsked


@dataclass(slots=True)
class Choice:
    """One of the answers that a call asks for, and how far it got."""

    index: int
    turn_id: str
    request_id: str
    """The engine tells its calls apart by it, so each choice has its own."""
    request: TurnRequest
    reading: Reading
    collector: Collector
    lease: Lease | None = None
    """Where and how it is sampled, once it was had."""
    whole: Completion | None = None
    failed: bool = False
    """Whether it was this one for which the call failed, and no other."""


async def take_turn(call: TurnCall, session: Session, deps: Deps) -> tuple[Turn, ...]:
    """Prepare, sample, record; returns the committed turns, one for each answer asked for.

    Raises:
        GatewayError: see the errors of each step, the first among several choices; the ledger is as it was,
            but for aborted turns.
    """
    plan = await _plan(call.request, session, deps)
    choices = await deps.rendering(lambda: _choices(call, plan))
    if call.feed is not None:
        call.feed.prompt_ids, call.feed.evidence = plan.prompt.ids, [choice.collector.evidence for choice in choices]
    try:
        await together(_sample(choice, call, plan, session, deps) for choice in choices)
        read = await deps.rendering(lambda: [_read(choice) for choice in choices])
    except (asyncio.CancelledError, Exception) as error:
        call.fail(error)
        ended = [(choice, _why(error, choice, choices, call)) for choice in choices]
        await _record_aborted(call, session, deps, plan, ended)
        raise
    call.sealed = True
    turns = tuple(
        _sealed(choice, plan, kept, ending.answer) for choice, (kept, ending) in zip(choices, read, strict=True)
    )
    await _record(call, session, deps, plan.pending, turns)
    if call.feed is not None:
        for index, (kept, ending) in enumerate(read):
            call.feed.add_rest(index, ending.rest, len(kept.ids))
    session.pin = choices[0].lease.rank.name if choices[0].lease else None
    return turns


async def _plan(request: TurnRequest, session: Session, deps: Deps) -> Plan:
    check_top_k(request.sampling.top_k, deps.side_arrays)
    translator = await deps.rendering(lambda: deps.renderers.get(request.template_kwargs))
    window = session.terms.budget.window(max((await deps.backends.answering()).values()))
    pending = session.ledger.prepare(request)
    return await deps.rendering(lambda: _rendered(translator, pending, window, deps.side_arrays))


def _rendered(translator: Translator, pending: PendingTurn, window: int, side_arrays: Sequence[str]) -> Plan:
    request = pending.request
    if outgrows(request, window, translator.tokenizer):
        raise ContextLengthExceeded(f"the messages cannot fit into a context of {window} tokens")
    prompt = build_prompt(translator, pending)
    opens_thought = translator.opens_thought(prompt.ids)
    bound = structured_outputs(request, translator.form, translator.tokenizer, opens_thought=opens_thought)
    retention, asked = translator.retention_of(pending, prompt), asked_of(prompt, side_arrays)
    return Plan(translator, pending, prompt, retention, bound, asked)


def _choices(call: TurnCall, plan: Plan) -> list[Choice]:
    """The choices of a call: alike but for their ids, and for the seed, which counts up from the one given."""
    sampling = call.request.sampling
    choices = []
    for index, turn_id in enumerate(call.turn_ids):
        request_id = f"{call.request_id}-{index}" if index else call.request_id
        request = replace(call.request, sampling=replace(sampling, seed=nth_seed(sampling.seed, index)))
        reading = Reading(plan.translator, plan.prompt.ids, request, lambda: f"call_{secrets.token_hex(12)}")
        choices.append(
            Choice(index, turn_id, request_id, request, reading, Collector(request.top_logprobs, plan.side_arrays))
        )
    return choices


async def _sample(choice: Choice, call: TurnCall, plan: Plan, session: Session, deps: Deps) -> None:
    """Sample one choice to its end, on a lease of its own, and say meanwhile what is to be streamed."""
    try:
        async with deps.backends.lease(session.pin, session.id) as rank:
            choice.lease = await _lease(choice.request, session, plan, rank).proven(deps.exact_by)
            body, heard = _body(choice.request, plan, choice.lease, deps), False
            events = rank.engine.generate(body, request_id=choice.request_id, rank=rank.number)
            async with aclosing(events) as payloads:
                async for payload in payloads:
                    if not heard:  # now the engine is known to be the one that was asked, or to have been lost
                        choice.lease, heard = await choice.lease.proven(deps.exact_by), True
                    ids = choice.collector.feed(payload)
                    if call.feed is not None and ids:
                        call.feed.begin()
                        told = choice.reading.feed(ids)
                        await call.feed.add(pieces(choice.index, told, choice.reading.shown))
        choice.whole = await _decoded(choice.collector.completion, [choice])
        note_missing(deps.side_arrays, choice.whole, rank.engine, deps.metrics)
    except Exception as error:
        choice.failed = True
        if isinstance(error, EngineProtocolError):
            # An engine whose evidence fails once is not believed for the rest either.
            choice.collector = Collector(choice.request.top_logprobs, plan.side_arrays)
        raise


async def _decoded(decode: Callable[[], T], choices: Sequence[Choice]) -> T:
    """Decode what was sampled, elsewhere where that would hold up everybody else for milliseconds."""
    large = sum(choice.collector.beside.large_bytes for choice in choices) > _LARGE_BYTES
    return await asyncio.to_thread(decode) if large else decode()


def _lease(request: TurnRequest, session: Session, plan: Plan, rank: Rank) -> Lease:
    assert rank.engine.max_model_len is not None  # or it would not be leased
    model_tokens, prompt_tokens = rank.engine.max_model_len, len(plan.prompt.ids)
    limit = session.limit(request, model_tokens=model_tokens, prompt_tokens=prompt_tokens)
    sampling = record(
        request.sampling,
        max_tokens=limit.tokens,
        stop_token_ids=() if request.sampling.ignore_eos else tuple(plan.translator.stop_ids),
        overridden=request.overridden,
        constrained=plan.structured_outputs is not None,
        logprobs_mode=rank.engine.logprobs.mode,
    )
    return Lease(rank, limit, sampling)


def _body(request: TurnRequest, plan: Plan, lease: Lease, deps: Deps) -> bytes:
    return encode_request(
        plan.prompt.ids,
        request,
        max_tokens=lease.limit.tokens,
        stop_ids=lease.sampling.stop_token_ids,
        stream_interval_tokens=deps.stream_interval_tokens,
        structured_outputs=plan.structured_outputs,
        version=lease.rank.engine.version,
        routed_experts_prompt_start=plan.side_arrays.routed_experts_prompt_start,
    )


def _read(choice: Choice) -> tuple[Completion, Ending]:
    """The completion up to its stop string, and the message that the client sees."""
    whole = choice.whole
    assert whole is not None  # or its sampling would have failed
    if not choice.request.stream:
        choice.reading.feed(whole.ids)
    ending = choice.reading.finish()
    return (whole if ending.kept is None else whole.head(ending.kept, FinishReason.STOP)), ending


def _why(error: BaseException, choice: Choice, choices: Sequence[Choice], call: TurnCall) -> EndedBy:
    """How a turn ended that was not completed, since its call failed with `error`."""
    if isinstance(error, asyncio.CancelledError):
        return "client_gone" if call.is_alone() else "cancelled"
    return "infra" if choice.failed or not any(other.failed for other in choices) else "cancelled"


def _sealed(
    choice: Choice, plan: Plan, completion: Completion, answer: Answer, broken_off: EndedBy | None = None
) -> Turn:
    assert choice.lease is not None  # it has sampled there
    rank, sampling = choice.lease.rank, choice.lease.sampling
    ended_by = broken_off or choice.lease.ended_by(completion, answer)
    origin = Origin(rank.engine.url, rank.number, plan.retention, plan.translator.mark)
    if plan.structured_outputs is not None:
        answer = replace(answer, flags=(*answer.flags, "constrained"))
    seal = plan.pending.seal
    return seal(choice.turn_id, plan.prompt, completion, answer, origin, sampling=sampling, ended_by=ended_by)


async def _record_aborted(
    call: TurnCall, session: Session, deps: Deps, plan: Plan, ended: Sequence[tuple[Choice, EndedBy]]
) -> None:
    """Record what had been sampled, up to a stop string; whatever goes wrong here does not hide why the call failed."""
    nothing, stops = Answer(Message("assistant")), call.request.sampling.stop

    def read() -> list[tuple[Choice, Completion, EndedBy]]:
        return [(choice, choice.reading.cut(ids), why) for choice, why in ended if (ids := choice.collector.partial())]

    try:
        partials = await (deps.rendering(read) if stops else _decoded(read, [choice for choice, _ in ended]))
        if turns := [_sealed(choice, plan, ids, nothing, why) for choice, ids, why in partials]:
            await _record(call, session, deps, plan.pending, turns)
    except Exception:
        about = {"session_id": session.id, "request_id": call.request_id}
        log.exception("an aborted turn could not be kept", **about, **where())


async def _record(call: TurnCall, session: Session, deps: Deps, pending: PendingTurn, turns: Sequence[Turn]) -> None:
    """Durable first, then visible; all turns of the call at once."""
    await deps.store.put(session.id, turns)
    for turn in turns:
        deps.versions.note(turn.completion.spans)
        pending.commit(turn)
    for turn in turns:
        deps.metrics.count(turn)
        log.info("turn", session_id=session.id, request_id=call.request_id, **turn_facts(turn))
