"""The sim as an HTTP server: vLLM's routes, a journal of what came in, and faults on demand."""

import asyncio
from collections import deque
from dataclasses import dataclass, field, replace

import orjson
from aiohttp import web

from gateway.sim.engine import Answer, Engine, Json, Refused, error, section

_DEAD = error(500, "InternalServerError", "EngineCore encountered an issue.")
_GATED = "Scale-out endpoints are disabled. Restart vllm serve with --enable-scale-out to enable them."
_REFUSALS: dict[str | None, tuple[int, Json]] = {
    "error_500": (500, _DEAD),
    "error_503": (503, error(503, "Service Unavailable", "The engine is currently busy.")),
    "scale_out_disabled": (403, error(403, "PermissionDeniedError", _GATED)),
    "not_found": (404, {"detail": "Not Found"}),
}
"""Faults that answer at once, with a status and a body."""
_ENDS = {"cut": None, "error_event": None, "no_finish": None, "stall": None, "abort": "abort"}
"""Faults that end the answer after n tokens, and the finish reason they leave."""
_CHANGES: dict[str, Json] = {
    "null_logprob": {"logprob": None},
    "sentinel_logprob": {"logprob": -9999.0},
    "positive_logprob": {"logprob": 0.25},
}
"""Faults in the logprob entry of token n, and what it says instead."""
_OTHERS = ("no_logprobs", "missing_logprob", "wrong_logprob_id", "extra_token", "garbage")
"""Null for all logprobs; no entry for the last token; an entry of token n that names the next id; token n a second
time, without an entry; after n events, one that is not JSON, and then the rest."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing to go wrong with one request: at token `after`, or after so many tokens."""

    kind: str
    after: int = 0

    def spoil(self, answer: Answer) -> Answer:
        """The answer with this fault in it."""
        tokens, at = answer.tokens, min(self.after, len(answer.tokens) - 1)
        if not tokens and self.kind not in _ENDS:
            return answer
        match self.kind:
            case "no_logprobs":
                return replace(answer, with_logprobs=False)
            case "missing_logprob":
                return replace(answer, tokens=(*tokens[:-1], (tokens[-1][0], None)))
            case "extra_token":
                return replace(answer, tokens=(*tokens[: at + 1], (tokens[at][0], None), *tokens[at + 1 :]))
            case kind if kind in _ENDS:
                return replace(answer, tokens=tokens[: self.after], finish=_ENDS[kind], stop_reason=None)
        token_id, entry = tokens[at]
        named: Json = {"token_id": token_id + 1, "token": f"token_id:{token_id + 1}"}
        change = named if self.kind == "wrong_logprob_id" else _CHANGES.get(self.kind, {})
        spoilt = entry and entry | {key: value for key, value in change.items() if key in entry}
        return replace(answer, tokens=(*tokens[:at], (token_id, spoilt), *tokens[at + 1 :]))


class Faults(deque[Fault]):
    """Faults to come, one per request to generate, oldest first."""

    def inject(self, kind: str, *, after: int = 0, times: int = 1) -> None:
        """Let the next `times` requests to generate go wrong. An unknown kind is a ``ValueError``."""
        if kind not in {*_REFUSALS, *_ENDS, *_CHANGES, *_OTHERS}:
            raise ValueError(kind)
        self.extend([Fault(kind, after)] * times)


@dataclass(slots=True)
class Entry:
    """One request to generate, as received, and how far its answer got."""

    request_id: str | None
    headers: dict[str, str]
    body: Json
    token_ids: object
    fault: str | None
    emitted: list[int] = field(default_factory=list)
    """The ids written so far."""
    finished: bool = False
    """Whether a finish reason was written."""
    disconnected: bool = False
    """Whether the client went away before that."""


@dataclass(slots=True)
class Journal:
    """The requests to generate, in order of arrival, and how many of them are being answered."""

    entries: list[Entry] = field(default_factory=list)
    running: int = 0


ENGINE = web.AppKey("ENGINE", Engine)
JOURNAL = web.AppKey("JOURNAL", Journal)
FAULTS = web.AppKey("FAULTS", Faults)


def create_sim(
    *,
    model: str = "sim",
    max_model_len: int = 40960,
    version: str = "0.32.0",
    eos_id: int = 151645,
    token_delay_s: float = 0.0,
) -> web.Application:
    """A simulated engine that answers as vLLM `version` does.

    Run it with ``handler_cancellation=True`` (aiohttp's `TestServer` already does), or a client that leaves is only
    noticed at the next write. In process, `app[JOURNAL]` and `app[FAULTS]` are what the `/sim` routes serve.
    """
    app = web.Application(client_max_size=1 << 26)
    app[ENGINE] = Engine(model, max_model_len, version, eos_id, token_delay_s)
    app[JOURNAL], app[FAULTS] = Journal(), Faults()
    app.router.add_post("/inference/v1/generate", _generate)
    for path in ("/health", "/version", "/v1/models", "/metrics", "/sim/journal"):
        app.router.add_get(path, _read)
    app.router.add_post("/sim/faults", _inject)
    app.router.add_delete("/sim/{what:journal|faults}", _clear)
    return app


async def _generate(request: web.Request) -> web.StreamResponse:
    journal, faults = request.app[JOURNAL], request.app[FAULTS]
    body: Json = orjson.loads(await request.read())
    fault = faults.popleft() if faults else None
    headers = {name.lower(): value for name, value in request.headers.items()}
    entry = Entry(headers.get("x-request-id"), headers, body, body.get("token_ids"), fault.kind if fault else None)
    journal.entries.append(entry)
    journal.running += 1
    try:
        return await _answer(request, entry, fault)
    except asyncio.CancelledError:
        entry.disconnected = not entry.finished
        raise
    except ConnectionError:
        entry.disconnected = not entry.finished
        return web.Response()  # goes nowhere: the socket is closed
    finally:
        journal.running -= 1


async def _answer(request: web.Request, entry: Entry, fault: Fault | None) -> web.StreamResponse:
    engine, streams = request.app[ENGINE], entry.body.get("stream") is True
    try:
        if entry.fault in _REFUSALS:
            raise Refused(*_REFUSALS[entry.fault])
        answer = engine.answer(entry.body, entry.request_id)
        answer = fault.spoil(answer) if fault else answer
        if entry.fault == "error_event" and not streams:
            raise Refused(500, _DEAD)
    except Refused as refused:
        if not (streams and refused.in_stream):
            return _json(refused.body, status=refused.status)
        return await _stream(request, entry, [_Event(orjson.dumps(refused.body)), _DONE])
    if streams:
        return await _stream(request, entry, _events(engine, answer, entry, fault))
    await asyncio.sleep(engine.token_delay_s * len(answer.tokens))
    await _break_off(request, entry)
    entry.emitted += [token_id for token_id, _ in answer.tokens]
    entry.finished = answer.finish is not None
    return web.Response(body=_GARBAGE.data) if entry.fault == "garbage" else _json(engine.whole(answer))


@dataclass(frozen=True, slots=True)
class _Event:
    data: bytes
    ids: tuple[int, ...] = ()
    final: bool = False


_DONE, _GARBAGE = _Event(b"[DONE]"), _Event(b'{"request_id": "generate-tok')


def _events(engine: Engine, answer: Answer, entry: Entry, fault: Fault | None) -> list[_Event]:
    bursts = answer.bursts()
    events = []
    for n, tokens in enumerate(bursts, start=1):
        last = n == len(bursts)
        data = orjson.dumps(engine.chunk(answer, tokens, last=last))
        events.append(_Event(data, tuple(token_id for token_id, _ in tokens), last and answer.finish is not None))
    match fault:
        case Fault("cut" | "stall"):
            return events
        case Fault("error_event"):
            return [*events, _Event(orjson.dumps(_DEAD)), _DONE]
        case Fault("garbage", after):
            events.insert(after, _GARBAGE)
    if section(entry.body, "stream_options").get("include_usage") is True:
        events.append(_Event(orjson.dumps(engine.chunk(answer, None))))
    return [*events, _DONE]


async def _stream(request: web.Request, entry: Entry, events: list[_Event]) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream; charset=utf-8"})
    await response.prepare(request)
    for event in events:
        await asyncio.sleep(request.app[ENGINE].token_delay_s * len(event.ids))
        await response.write(b"data: " + event.data + b"\n\n")
        entry.emitted += event.ids
        entry.finished |= event.final
    await _break_off(request, entry)
    return response


async def _break_off(request: web.Request, entry: Entry) -> None:
    if entry.fault == "cut" and request.transport is not None:
        request.transport.close()
    if entry.fault == "stall":
        await asyncio.Event().wait()


async def _read(request: web.Request) -> web.Response:
    engine, journal = request.app[ENGINE], request.app[JOURNAL]
    match request.path:
        case "/version":
            return _json({"version": engine.version})
        case "/v1/models":
            card = {"id": engine.model, "object": "model", "created": 0, "owned_by": "vllm", "root": engine.model}
            return _json({"object": "list", "data": [card | {"parent": None, "max_model_len": engine.max_model_len}]})
        case "/metrics":
            labels = f'engine="0",model_name="{engine.model}"'
            return web.Response(text=f"vllm:num_requests_running{{{labels}}} {float(journal.running)}\n")
        case "/sim/journal":
            return _json(journal.entries)
    return web.Response()


async def _inject(request: web.Request) -> web.Response:
    try:
        request.app[FAULTS].inject(**await request.json())
    except (TypeError, ValueError) as cause:
        raise web.HTTPBadRequest(text=f"not a fault: {cause}") from cause
    return web.Response()


async def _clear(request: web.Request) -> web.Response:
    (request.app[JOURNAL].entries if request.match_info["what"] == "journal" else request.app[FAULTS]).clear()
    return web.Response()


def _json(body: object, *, status: int = 200) -> web.Response:
    return web.Response(body=orjson.dumps(body), status=status, content_type="application/json")
