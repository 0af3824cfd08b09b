"""The life of a turn: one coroutine, read top to bottom.

    prepare → build the prompt → lease an engine → sample → parse → put → commit → answer

Stopped anywhere before put, it leaves the ledger as it was, save one aborted turn if ids had been sampled
with evidence. Nothing is locked: two calls of one session become siblings.
"""

import asyncio
import secrets
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import TypeVar

import structlog

from gateway.core.ledger import PendingTurn
from gateway.core.prompt import build_prompt
from gateway.core.turn import Prompt, Turn
from gateway.core.types import Answer, Completion, FinishReason, Message, Origin, TurnRequest
from gateway.edge.backends import Backends, Rank
from gateway.edge.metrics import Metrics
from gateway.edge.session import Session
from gateway.edge.store import Store
from gateway.errors import ContextLengthExceeded, EngineProtocolError, GatewayError
from gateway.render.registry import Renderers
from gateway.render.room import outgrows
from gateway.render.stops import find_stop
from gateway.render.translator import Translator
from gateway.wire.export import turn_object
from gateway.wire.generate import Collector, encode_request

T = TypeVar("T")
log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Deps:
    """What taking a turn needs."""

    renderers: Renderers
    backends: Backends
    store: Store
    metrics: Metrics
    render_thread: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(1, "render"))
    """All tokenizing happens here, one at a time: it holds the event loop up for a third of a second at 128k
    tokens, and fast tokenizers keep state between threads."""

    async def rendering(self, call: Callable[[], T]) -> T:
        """Run one call of a renderer off the event loop."""
        return await asyncio.get_running_loop().run_in_executor(self.render_thread, call)


@dataclass(slots=True)
class TurnCall:
    """One turn being taken."""

    session_id: str
    request: TurnRequest
    turn_id: str
    request_id: str
    sealed: bool = False
    """Set when the turn is being recorded: from then on it is no longer cancelled."""
    anonymous: bool = False
    """Whether the client named no session."""


async def take_turn(call: TurnCall, session: Session, deps: Deps) -> Turn:
    """Prepare, sample, record; returns the committed turn.

    Raises:
        GatewayError: see the errors of each step; the ledger is as it was, but for an aborted turn.
    """
    request = call.request
    translator = deps.renderers.get(request.template_kwargs)
    window = session.terms.budget.window(max((await deps.backends.answering()).values()))
    pending = session.ledger.prepare(request)
    prompt = await deps.rendering(lambda: _prompt(translator, pending, window))
    collector = Collector()
    origin, pin = Origin("", 0), session.pin
    try:
        async with deps.backends.lease(session.pin, session.id) as rank:
            origin = Origin(rank.engine.url, rank.number, _retention(translator, pending, prompt))
            pin = rank.name
            await _sample(call, session, prompt, translator, rank, collector)
        whole = collector.completion()
        completion, answer = await deps.rendering(lambda: _read(translator, prompt, whole, request))
    except (asyncio.CancelledError, GatewayError) as error:
        # An engine whose evidence fails once is not believed for the rest either.
        partial = None if isinstance(error, EngineProtocolError) else collector.partial()
        if partial is not None:
            call.sealed = True
            aborted = pending.seal(call.turn_id, prompt, partial, Answer(Message("assistant")), origin)
            await _record(call, session, deps, pending, aborted)
        raise
    call.sealed = True
    turn = pending.seal(call.turn_id, prompt, completion, answer, origin)
    await _record(call, session, deps, pending, turn)
    session.pin = pin
    return turn


def _retention(translator: Translator, pending: PendingTurn, prompt: Prompt) -> str | None:
    """Which earlier reasoning the prompt holds: a bridge keeps what its base has, a render what the template does."""
    if prompt.base is None and translator.thinking_retention and any(m.reasoning for m in pending.history()):
        return "template"
    return prompt.base.origin.thinking_retention if prompt.base else translator.thinking_retention


def _prompt(translator: Translator, pending: PendingTurn, window: int) -> Prompt:
    if outgrows(pending.request, window, translator.tokenizer):
        raise ContextLengthExceeded(f"the messages cannot fit into a context of {window} tokens")
    return build_prompt(translator, pending)


async def _sample(
    call: TurnCall, session: Session, prompt: Prompt, translator: Translator, rank: Rank, collector: Collector
) -> None:
    assert rank.engine.max_model_len is not None  # or it would not be leased
    limit = session.limit(call.request, model_tokens=rank.engine.max_model_len, prompt_tokens=len(prompt.ids))
    body = encode_request(prompt.ids, call.request, max_tokens=limit, stop_ids=translator.stop_ids)
    async with aclosing(rank.engine.generate(body, request_id=call.request_id, rank=rank.number)) as payloads:
        async for payload in payloads:
            collector.feed(payload)


def _read(translator: Translator, prompt: Prompt, whole: Completion, request: TurnRequest) -> tuple[Completion, Answer]:
    """The completion up to its stop string, and the message that the client sees."""
    ids = whole.ids.tolist()
    text_ids = ids[:-1] if ids[-1] in translator.stop_ids else ids
    stop = find_stop(translator.tokenizer, text_ids, request.sampling)
    shown = stop.shown if stop else ids
    answer = translator.parse(shown, prompt.ids, request.tools, lambda: f"call_{secrets.token_hex(12)}")
    if stop is None:
        return whole, answer
    flags = (*answer.flags, "stop_cut") if stop.cut else answer.flags
    return whole.head(stop.kept, FinishReason.STOP), replace(answer, flags=flags)


async def _record(call: TurnCall, session: Session, deps: Deps, pending: PendingTurn, turn: Turn) -> None:
    """Durable first, then visible."""
    await deps.store.put(session.id, [turn])
    pending.commit(turn)
    deps.metrics.count(turn)
    told = {name: value for name, value in turn_object(turn).items() if name != "tags"}  # which may say anything
    log.info("turn", session_id=session.id, request_id=call.request_id, **told)
