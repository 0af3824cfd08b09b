"""The life of a turn: one coroutine, read top to bottom.

    prepare → build the prompt → lease an engine → sample → parse → put → commit → answer

Stopped anywhere before put, it leaves the ledger as it was, save one aborted turn if ids had been sampled
with evidence. Nothing is locked: two calls of one session become siblings.
"""

import asyncio
import secrets
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import TypeVar

import structlog

from gateway.core.ledger import PendingTurn, Turn
from gateway.core.prompt import Prompt, build_prompt
from gateway.core.types import Completion, FinishReason, Message, TurnRequest
from gateway.edge.backends import Backends, Lease
from gateway.edge.metrics import Metrics
from gateway.edge.sessions import Session
from gateway.edge.store import Store
from gateway.errors import ContextLengthExceeded, EngineProtocolError, EngineUnavailable, GatewayError
from gateway.render.registry import Renderers
from gateway.render.stops import find_stop
from gateway.render.translator import Parsed, Translator
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


async def take_turn(call: TurnCall, session: Session, deps: Deps) -> Turn:
    """Prepare, sample, record; returns the committed turn.

    Raises:
        GatewayError: see the errors of each step; the ledger is as it was, but for an aborted turn.
    """
    started_s = time.monotonic()
    request = call.request
    translator = deps.renderers.get(request.template_kwargs)
    _refuse_what_cannot_fit(request, deps)
    pending = session.ledger.prepare(request)
    prompt = await deps.rendering(lambda: build_prompt(translator, pending))
    collector = Collector()
    lease: Lease | None = None
    try:
        async with deps.backends.lease(session.rank) as lease:
            await _sample(call, prompt, translator, lease, collector)
        completion = collector.completion()
        completion, parsed = await deps.rendering(lambda: _read(translator, prompt, completion, request))
    except EngineProtocolError:
        raise  # an engine whose evidence fails once is not believed for the rest either
    except (asyncio.CancelledError, GatewayError):
        partial = collector.partial()
        if partial is not None and lease is not None:
            call.sealed = True
            aborted = _seal(call, pending, prompt, translator, lease, partial, Parsed(Message("assistant"), ()))
            await _record(call, session, deps, pending, aborted)
        raise
    call.sealed = True
    turn = _seal(call, pending, prompt, translator, lease, completion, parsed)
    await _record(call, session, deps, pending, turn)
    deps.metrics.turn_duration.observe(time.monotonic() - started_s)
    return turn


def _refuse_what_cannot_fit(request: TurnRequest, deps: Deps) -> None:
    """Refuse by length what no tokenizer could squeeze into the context, before it costs seconds to tokenize."""
    window = deps.backends.max_model_len
    if window is None:
        return
    characters = sum(len(message.content) for message in request.messages)
    if characters > window * deps.renderers.longest_token_chars:
        raise ContextLengthExceeded(f"{characters} characters cannot fit into the model's context of {window} tokens")


async def _sample(call: TurnCall, prompt: Prompt, translator: Translator, lease: Lease, collector: Collector) -> None:
    room = lease.max_model_len - len(prompt.ids)
    if room < 1:
        raise ContextLengthExceeded(
            f"the prompt of {len(prompt.ids)} tokens leaves no room in the model's context of {lease.max_model_len}"
        )
    wanted = call.request.sampling.max_tokens
    body = encode_request(
        prompt.ids,
        call.request,
        max_tokens=room if wanted is None else min(wanted, room),
        stop_token_ids=translator.stop_ids,
    )
    try:
        async with aclosing(lease.engine.generate(body, request_id=call.request_id)) as payloads:
            async for payload in payloads:
                collector.feed(payload)
    except EngineUnavailable:
        if not collector.done:
            raise


def _read(
    translator: Translator, prompt: Prompt, completion: Completion, request: TurnRequest
) -> tuple[Completion, Parsed]:
    """The completion up to its stop string, and the message that the client sees."""
    ids = completion.ids.tolist()
    text_ids = ids[:-1] if ids[-1] in translator.stop_ids else ids
    stop = find_stop(translator.tokenizer, text_ids, request.sampling)
    if stop is not None:
        completion = replace(completion.head(stop.kept), finish_reason=FinishReason.STOP)
        ids = stop.shown
    parsed = translator.parse(ids, prompt.ids, request.tools, lambda: f"call_{secrets.token_hex(12)}")
    if stop is not None and stop.cut:
        parsed = replace(parsed, flags=(*parsed.flags, "stop_cut"))
    return completion, parsed


def _seal(
    call: TurnCall,
    pending: PendingTurn,
    prompt: Prompt,
    translator: Translator,
    lease: Lease,
    completion: Completion,
    parsed: Parsed,
) -> Turn:
    return pending.seal(
        turn_id=call.turn_id,
        prompt=prompt,
        completion=completion,
        message=parsed.message,
        status="aborted" if completion.finish_reason is FinishReason.ABORT else "complete",
        flags=parsed.flags,
        engine=lease.engine.url,
        rank=lease.rank,
        thinking_retention=translator.thinking_retention,
    )


async def _record(call: TurnCall, session: Session, deps: Deps, pending: PendingTurn, turn: Turn) -> None:
    """Durable first, then visible."""
    await deps.store.put(session.id, turn)
    pending.commit(turn)
    if turn.status == "complete":
        session.rank = turn.engine
    metrics = deps.metrics
    metrics.turns.labels(status=turn.status).inc()
    metrics.prompts.labels(how=turn.how, reason=turn.reason or "").inc()
    metrics.tokens.labels(type="prompt").inc(turn.prompt_length)
    metrics.tokens.labels(type="completion").inc(len(turn.completion.ids))
    for kind in turn.differences:
        metrics.differences.labels(kind=kind).inc()
    log.info(
        "turn",
        session_id=session.id,
        turn_id=turn.id,
        parent_id=turn.parent.id if turn.parent else None,
        request_id=call.request_id,
        status=turn.status,
        how=turn.how,
        reason=turn.reason,
        prompt_tokens=turn.prompt_length,
        completion_tokens=len(turn.completion.ids),
        finish_reason=turn.completion.finish_reason.value,
        engine=turn.engine,
    )
