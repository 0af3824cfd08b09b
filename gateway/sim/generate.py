"""The life of a request to generate, from its bytes to the last event."""

import asyncio

import orjson
from aiohttp import web

from gateway.sim.control import Run
from gateway.sim.faults import BUSY, DEAD, Fault
from gateway.sim.journal import Entry
from gateway.sim.keys import CONTROL, ENGINE, FAULTS, JOURNAL, PACE, RANKS
from gateway.sim.output import Output
from gateway.sim.personality import Json, Refused, error
from gateway.sim.reply import json_response, read_json
from gateway.sim.shapes import Shapes

_DONE, _GARBAGE = b"[DONE]", b'{"request_id": "generate-tok'
_MANY = error(500, "InternalServerError", "list index out of range")
"""How releases before 0.32 end a stream of several choices."""


async def generate(request: web.Request) -> web.StreamResponse:
    """Answer one request; whatever becomes of it, the journal has it."""
    app = request.app
    body = await read_json(request, app[ENGINE].personality)
    fault = app[FAULTS].popleft() if app[FAULTS] else None
    headers = {name.lower(): value for name, value in request.headers.items()}
    entry = Entry(headers.get("x-request-id"), headers, body, body.get("token_ids"), fault.kind if fault else None)
    app[JOURNAL].add(entry)
    app[JOURNAL].running += 1
    try:
        return await _admit(request, entry, fault)
    except asyncio.CancelledError:
        entry.disconnected = not entry.finished
        raise
    except ConnectionError:
        entry.disconnected = not entry.finished
        return web.Response()  # goes nowhere: the socket is closed
    finally:
        app[JOURNAL].running -= 1


async def _admit(request: web.Request, entry: Entry, fault: Fault | None) -> web.StreamResponse:
    try:
        run = _prepare(request, entry, fault)
    except Refused as refused:
        if not (entry.body.get("stream") is True and refused.in_stream):
            raise
        stream = _Stream(request, entry)
        await stream.open()
        return await stream.close(refused.body)
    async with run.control.governing(run), run.seated():
        entry.cached_tokens, entry.prefilled_tokens = run.cached, run.prefilled
        answering = _streamed if run.request.streams else _whole
        return await answering(request, entry, fault, run)


def _prepare(request: web.Request, entry: Entry, fault: Fault | None) -> Run:
    app, engine = request.app, request.app[ENGINE]
    if fault is not None:
        fault.strike()
    asked = engine.request(entry.body, entry.request_id)
    if app[RANKS].full and engine.personality.since(0, 29):
        raise Refused(503, BUSY)
    named = entry.headers.get("x-data-parallel-rank") if engine.personality.since(0, 22) else None
    rank = app[RANKS].choose(named)
    answers = engine.answers(asked)
    if fault is not None:
        answers = [fault.spoil(answer) for answer in answers]
        if fault.kind == "error_event" and not asked.streams:
            raise Refused(500, DEAD)
    entry.rank = rank.number
    return Run(asked, [Output(answer) for answer in answers], rank, app[CONTROL], app[PACE])


async def _whole(request: web.Request, entry: Entry, fault: Fault | None, run: Run) -> web.StreamResponse:
    async for _ in run.steps():
        pass
    await _break_off(request, fault)
    for output in run.outputs:
        entry.emitted += output.ids
    entry.finished = all(output.finish is not None for output in run.outputs)
    if fault is not None and fault.kind == "garbage":
        return web.Response(body=_GARBAGE)
    return json_response(Shapes(request.app[ENGINE], run.request, run.cached).whole(run.outputs))


async def _streamed(request: web.Request, entry: Entry, fault: Fault | None, run: Run) -> web.StreamResponse:
    engine, events = request.app[ENGINE], 0
    stream, shapes = _Stream(request, entry), Shapes(engine, run.request, run.cached)
    garbage_at = fault.after if fault is not None and fault.kind == "garbage" else None
    await stream.open()
    async for output, tokens, last in run.steps():
        if output.index and not engine.personality.since(0, 32):
            return await stream.close(_MANY)
        if events == garbage_at:
            await stream.write(_GARBAGE)
        if tokens or engine.personality.since(0, 32):  # before, an event without ids was lost on the way
            await stream.send(shapes.chunk(run.outputs, output, tokens, last=last))
            entry.emitted += [token_id for token_id, _ in tokens]
            entry.finished |= last and output.finish is not None
        events += 1
    match fault:
        case Fault("cut" | "stall"):
            await _break_off(request, fault)
            return stream.response
        case Fault("error_event"):
            return await stream.close(DEAD)
        case Fault("garbage", after) if after >= events:
            await stream.write(_GARBAGE)
    return await stream.close(shapes.usage(run.outputs) if run.request.option("include_usage") else None)


class _Stream:
    """A response of server-sent events."""

    def __init__(self, request: web.Request, entry: Entry) -> None:
        self.request, self.entry = request, entry
        self.response = web.StreamResponse(headers={"Content-Type": "text/event-stream; charset=utf-8"})

    async def open(self) -> None:
        await self.response.prepare(self.request)

    async def send(self, body: Json) -> None:
        await self.write(orjson.dumps(body))

    async def write(self, data: bytes) -> None:
        await self.response.write(b"data: " + data + b"\n\n")

    async def close(self, last: Json | None) -> web.StreamResponse:
        """Send `last`, if there is one, and the end."""
        if last is not None:
            await self.send(last)
        await self.write(_DONE)
        return self.response


async def _break_off(request: web.Request, fault: Fault | None) -> None:
    if fault is not None and fault.kind == "cut" and request.transport is not None:
        request.transport.close()
    if fault is not None and fault.kind == "stall":
        await asyncio.Event().wait()
