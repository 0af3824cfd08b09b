"""The life of a turn: one coroutine, read top to bottom.

    prepare → build the prompt → lease an engine → sample → parse → put → commit → answer

A call may ask for several answers: each is sampled on a lease of its own, and they are recorded together or not
at all. Stopped anywhere before put, it leaves the ledger as it was, save an aborted turn for each answer of which
ids had been sampled with evidence. Nothing is locked: two calls of one session become siblings.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeVar

import structlog

from gateway.core.ledger import PendingTurn
from gateway.core.prompt import build_prompt
from gateway.core.sampling import nth_seed
from gateway.core.turn import Turn
from gateway.core.types import Answer, EndedBy, FinishReason, Message, Origin
from gateway.core.versions import Marks
from gateway.edge.asking import reading_of
from gateway.edge.choice import Choice, Plan, Sampled, decoded
from gateway.edge.deps import Deps
from gateway.edge.generation import Generation
from gateway.edge.log import where
from gateway.edge.session import Session, TurnCall
from gateway.edge.tasks import together
from gateway.errors import BadRequest, ContextLengthExceeded
from gateway.render.forcing import structured_outputs
from gateway.render.reading import Ending
from gateway.render.room import outgrows
from gateway.render.translator import Translator
from gateway.wire.collector import Collector
from gateway.wire.side_arrays import asked_of, check_top_k
from gateway.wire.turns import turn_facts

log = structlog.get_logger()
T = TypeVar("T")

_NOTHING = Answer(Message("assistant"))
"""What was answered by an engine that did not come to its end."""


async def take_turn(call: TurnCall, session: Session, deps: Deps) -> tuple[Turn, ...]:
    """Prepare, sample, record; returns the committed turns, one for each answer asked for.

    Raises:
        GatewayError: see the errors of each step, the first among several choices; the ledger is as it was,
            but for aborted turns.
    """
    plan = await _plan(call, session, deps)
    choices = await _rendering(call, deps, lambda: _choices(call, plan, deps.versions.marks))
    if call.feed is not None:
        call.feed.prompt_ids, call.feed.evidence = plan.prompt.ids, [choice.evidence for choice in choices]
    try:
        await together(Generation(choice, call, plan, session, deps).run() for choice in choices)
        read = await _rendering(call, deps, lambda: [_read(choice) for choice in choices])
    except (asyncio.CancelledError, Exception) as error:
        call.fail(error)
        ended = [(choice, _why(error, choice, choices, call)) for choice in choices]
        await _record_aborted(call, session, deps, plan, ended)
        raise
    call.sealed = True
    turns = tuple(
        _sealed(choice.turn_id, plan, kept, ending.answer) for choice, (kept, ending) in zip(choices, read, strict=True)
    )
    await _record(call, session, deps, plan.pending, [*_discarded(plan, choices), *turns])
    if call.feed is not None:
        for index, (kept, ending) in enumerate(read):
            call.feed.add_rest(index, ending.rest, len(kept.completion.ids))
    return turns


async def _rendering(call: TurnCall, deps: Deps, work: Callable[[], T]) -> T:
    with call.phases.timed("render"):
        return await deps.rendering(work)


async def _plan(call: TurnCall, session: Session, deps: Deps) -> Plan:
    request = call.request
    check_top_k(request.sampling.top_k, deps.side_arrays)
    translator = await _rendering(call, deps, lambda: deps.renderers.get(request.template_kwargs))
    most = deps.backends.places.bounds.most_choices
    if request.n > most:
        raise BadRequest(f"n: at most {most} answers can be had at once (--rank-turns, --queue-turns)", param="n")
    widest = await deps.backends.window(request.model, awaits_engine=deps.resuming.attempts > 0)
    window = session.terms.budget.window(widest)
    with call.phases.timed("match"):
        pending = session.ledger.prepare(request)
    return await _rendering(call, deps, lambda: _rendered(translator, pending, window, deps.side_arrays))


def _rendered(translator: Translator, pending: PendingTurn, window: int, side_arrays: Sequence[str]) -> Plan:
    request = pending.request
    if not translator.truncates and outgrows(request, window, translator.tokenizer):
        raise ContextLengthExceeded(f"the messages cannot fit into a context of {window} tokens")
    prompt = build_prompt(translator, pending)
    opens_thought = translator.opens_thought(prompt.ids)
    bound = structured_outputs(request, translator.form, translator.tokenizer, opens_thought=opens_thought)
    retention, asked = translator.retention_of(pending, prompt), asked_of(prompt, side_arrays)
    return Plan(translator, pending, prompt, window - len(prompt.ids), retention, bound, asked)


def _choices(call: TurnCall, plan: Plan, marks: Callable[[], Marks]) -> list[Choice]:
    """The choices of a call: alike but for their ids, and for the seed, which counts up from the one given."""
    sampling = plan.translator.ended(call.request.sampling)
    choices = []
    for index, turn_id in enumerate(call.turn_ids):
        request_id = f"{call.request_id}-{index}" if index else call.request_id
        request = replace(call.request, sampling=replace(sampling, seed=nth_seed(sampling.seed, index)))
        collector, reading = Collector(request.top_logprobs, plan.side_arrays), reading_of(request, plan)
        choices.append(Choice(index, turn_id, request_id, request, len(plan.prompt.ids), reading, collector, marks()))
    return choices


def _read(choice: Choice) -> tuple[Sampled, Ending]:
    """The completion up to its stop string, and the message that the client sees."""
    whole = choice.whole
    assert whole is not None  # or its sampling would have failed
    if not choice.request.stream:
        choice.reading.feed(whole.completion.ids)
    ending = choice.reading.finish()
    return (whole if ending.kept is None else whole.head(ending.kept, FinishReason.STOP)), ending


def _why(error: BaseException, choice: Choice, choices: Sequence[Choice], call: TurnCall) -> EndedBy:
    """How a turn ended that was not completed, since its call failed with `error`."""
    if isinstance(error, asyncio.CancelledError):
        return "client_gone" if call.is_alone() else "cancelled"
    return "infra" if choice.failed or not any(other.failed for other in choices) else "cancelled"


def _sealed(turn_id: str, plan: Plan, sampled: Sampled, answer: Answer, broken_off: EndedBy | None = None) -> Turn:
    completion, rank = sampled.completion, sampled.settled.rank
    ended_by = broken_off or sampled.settled.ended_by(completion, answer)
    origin = Origin(rank.engine.url, rank.number, plan.retention, plan.translator.mark)
    if plan.structured_outputs is not None:
        answer = replace(answer, flags=(*answer.flags, "constrained"))
    seal = plan.pending.seal
    return seal(turn_id, plan.prompt, completion, answer, origin, sampling=sampled.sampling, ended_by=ended_by)


def _discarded(plan: Plan, choices: Sequence[Choice]) -> list[Turn]:
    """What was begun, cut, and made anew."""
    every = [one for choice in choices for one in choice.discarded]
    return [_sealed(turn_id, plan, sampled, _NOTHING, "infra") for turn_id, sampled in every]


async def _record_aborted(
    call: TurnCall, session: Session, deps: Deps, plan: Plan, ended: Sequence[tuple[Choice, EndedBy]]
) -> None:
    """Record what had been sampled, up to a stop string; whatever goes wrong here does not hide why the call failed."""
    choices = [choice for choice, _ in ended]
    stops = any(choice.request.sampling.stop for choice in choices)

    def read() -> list[tuple[Choice, Sampled, EndedBy]]:
        partials = [(choice, choice.partial(), why) for choice, why in ended]
        return [(choice, _cut(choice, sampled), why) for choice, sampled, why in partials if sampled]

    try:
        partials = await (deps.rendering(read) if stops else decoded(read, choices))
        turns = [_sealed(choice.turn_id, plan, sampled, _NOTHING, why) for choice, sampled, why in partials]
        if turns := [*_discarded(plan, choices), *turns]:
            await _record(call, session, deps, plan.pending, turns)
    except Exception:
        about = {"session_id": session.id, "request_id": call.request_id}
        log.exception("an aborted turn could not be kept", **about, **where())


def _cut(choice: Choice, sampled: Sampled) -> Sampled:
    return replace(sampled, completion=choice.reading.cut(sampled.completion))


async def _record(call: TurnCall, session: Session, deps: Deps, pending: PendingTurn, turns: Sequence[Turn]) -> None:
    """Durable first, then visible; all turns of the call at once."""
    with call.phases.timed("put"):
        await deps.store.put(session.id, turns)
    for turn in turns:
        deps.versions.note(turn.completion.spans)
        pending.commit(turn)
    call.discarded_tokens = 0
    for turn in turns:
        deps.metrics.count(turn, call.dialect)
        log.info("turn", session_id=session.id, request_id=call.request_id, **turn_facts(turn))
