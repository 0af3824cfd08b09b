"""The HTTP surface: routes, keys, and errors in the caller's dialect."""

import asyncio
import hmac
import secrets
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import structlog
from aiohttp import web

from gateway.core.segments import rows
from gateway.core.turn import Turn
from gateway.core.types import TurnRequest
from gateway.edge.retries import Retries, Taken, digest_of, sending_of
from gateway.edge.sessions import Sessions, checked_session_id
from gateway.edge.tasks import WaitedTask, WaitedTasks
from gateway.edge.turn import Deps, TurnCall, take_turn
from gateway.errors import BadRequest, Forbidden, GatewayError, TooLarge, Unauthorized
from gateway.wire import chat
from gateway.wire.dialect import Dialect
from gateway.wire.export import PAGE_ROWS, PAGE_TURNS, Encode, Select, encode_page, row_object, turn_object

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
T = TypeVar("T")
log = structlog.get_logger()

_OPEN_ROUTES = {"/health", "/ready"}
_FAREWELL_S = 0.5
"""For the client to read its answer: to hang up on bytes that were not read resets the connection."""
_LARGE_BODY_BYTES = 1 << 20
"""From here on, decoding would hold up everybody else for tens of milliseconds."""


@dataclass(frozen=True, slots=True)
class Keys:
    """Who may call what; without any key everybody may."""

    agent: str = ""
    admin: str = ""

    def check(self, request: web.Request, *, agent_route: bool) -> None:
        """Let the request pass.

        Raises:
            Unauthorized: it shows no key, or one that we do not know.
            Forbidden: its key does not open this route.
        """
        if not (self.agent or self.admin):
            return
        scheme, _, token = request.headers.get("Authorization", "").partition(" ")
        shown = request.headers.get("x-api-key") or (token.strip() if scheme.lower() == "bearer" else "")
        if _same(shown, self.admin) or (agent_route and _same(shown, self.agent)):
            return
        if _same(shown, self.agent):
            raise Forbidden("an agent's key does not open this route: use the --admin-key")
        raise Unauthorized("no valid key: send it as `Authorization: Bearer …` or `x-api-key`")


def _same(shown: str, key: str) -> bool:
    return bool(key) and hmac.compare_digest(shown.encode("utf-8", "surrogateescape"), key.encode())


class Server:
    """The handlers, and what they share."""

    def __init__(self, deps: Deps, keys: Keys, tasks: WaitedTasks, retries: Retries) -> None:
        self.deps = deps
        self.sessions = Sessions()
        self.tasks = tasks
        self.retries = retries
        self._keys = keys

    def routes(self) -> list[web.RouteDef]:
        """Every route. Agents' routes are those with ``/v1/`` in them."""
        return [
            web.get("/health", self.health),
            web.get("/ready", self.ready),
            web.get("/metrics", self.metrics),
            web.post("/v1/chat/completions", self.chat_completions),
            web.post("/sessions/{sid:.+?}/v1/chat/completions", self.chat_completions),
            web.get("/v1/models", self.models),
            web.get("/sessions/{sid:.+?}/v1/models", self.models),
            web.get("/sessions/{sid:.+}/trajectories", self.trajectories),
            web.get("/sessions/{sid:.+}/turns", self.turns),
        ]

    async def health(self, _request: web.Request) -> web.Response:
        """The process lives."""
        return web.json_response({"status": "ok"})

    async def ready(self, _request: web.Request) -> web.Response:
        """At least one engine has answered."""
        ready = bool(self.deps.backends.known())
        return web.json_response({"status": "ready" if ready else "no engine answers"}, status=200 if ready else 503)

    async def metrics(self, _request: web.Request) -> web.Response:
        """Prometheus' text format."""
        return web.Response(body=self.deps.metrics.text(), headers={"Content-Type": "text/plain; version=0.0.4"})

    async def models(self, _request: web.Request) -> web.Response:
        """An engine's own list of models."""
        status, body = await self.deps.backends.relay("/v1/models")
        return _json(body, status=status)

    async def chat_completions(self, request: web.Request) -> web.Response:
        """One turn in OpenAI's chat dialect."""
        return await self._take(request, chat)

    async def trajectories(self, request: web.Request) -> web.Response:
        """The session as training rows."""
        encode = partial(row_object, request.match_info["sid"])
        return await self._page(request, PAGE_ROWS, rows, encode)

    async def turns(self, request: web.Request) -> web.Response:
        """The session's turns, oldest first."""
        return await self._page(request, PAGE_TURNS, list, turn_object)

    async def _page(self, request: web.Request, size: int, select: Select[T], encode: Encode[T]) -> web.Response:
        turns, cursor = self.sessions.get(request.match_info["sid"]).ledger.turns, request.query.get("cursor")
        # In a thread: long contexts take a second to write down.
        return _json(await asyncio.to_thread(encode_page, turns, cursor, size, select, encode))

    async def _take(self, request: web.Request, dialect: Dialect) -> web.Response:
        _refuse_other_media(request)
        body = await request.read()

        def read() -> tuple[TurnRequest, bytes]:
            return dialect.decode(body), digest_of(dialect.NAME, body)

        asked, digest = read() if len(body) < _LARGE_BODY_BYTES else await asyncio.to_thread(read)
        named = request.match_info.get("sid") or request.headers.get("X-Session-ID") or asked.session_hint
        scope = checked_session_id(named) if named else None
        request_id = request.headers.get("X-Request-Id", "")[:128] or _new_id("req")
        headers = {"x-request-id": request_id}
        sending = sending_of(scope, digest, request.headers)
        task = self.retries.find(sending)
        if task is None:
            turn_ids = tuple(_new_id("turn") for _ in range(asked.n))
            call = TurnCall(scope or _new_id("s"), asked, turn_ids, request_id)
            task = self.tasks.start(self._turn(call), may_cancel=lambda: not call.sealed)
            self.retries.add(sending, task)
        else:
            headers["x-gateway-replayed"] = "true"
        encode = partial(dialect.encode, request=asked, created_s=int(time.time()))
        return await _answer(request, task, encode, headers)

    async def _turn(self, call: TurnCall) -> Taken:
        # The session is held by the task, not by the request: a turn is recorded after its client has left.
        with self.sessions.entered(call.session_id) as session:
            return Taken(session, await take_turn(call, session, self.deps))

    @web.middleware
    async def guard(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Check the key, and turn every failure into an answer of the dialect: so far, OpenAI's."""
        try:
            if request.path not in _OPEN_ROUTES:
                resource = request.match_info.route.resource
                self._keys.check(request, agent_route="/v1/" in (resource.canonical if resource else ""))
            return await handler(request)
        except GatewayError as error:
            return self._refusal(error)
        except web.RequestPayloadError:
            ill = BadRequest("the body is not what its Content-Encoding or Content-Length says")
            return await _last_word(request, self._refusal(ill))
        except web.HTTPRequestEntityTooLarge as error:
            refusal = self._refusal(TooLarge(f"the body is over --max-body-bytes: {error.text}"))
            return await _last_word(request, refusal) if "Content-Encoding" in request.headers else refusal
        except web.HTTPException as error:
            unknown = BadRequest(f"{error.reason}: no such route or method here", status=error.status)
            return self._refusal(unknown, allow=error.headers.get("Allow"))
        except Exception:
            log.exception("unexpected failure", path=request.path)
            return self._refusal(GatewayError("the gateway failed unexpectedly; its log says where"))

    def _refusal(self, error: GatewayError, *, allow: str | None = None) -> web.Response:
        self.deps.metrics.errors.labels(code=error.code).inc()
        headers = {"Allow": allow} if allow else {}
        if error.status in (429, 503):
            headers["Retry-After"] = "1"  # second
        if not error.retryable and (error.status >= 500 or error.status in (408, 409, 429)):
            headers["x-should-retry"] = "false"  # SDKs would retry these statuses otherwise
        return _json(chat.encode_error(error), status=error.status, headers=headers)


async def _answer(
    request: web.Request, task: WaitedTask[Taken], encode: Callable[[Sequence[Turn]], bytes], headers: dict[str, str]
) -> web.Response:
    """Wait for the turns and send them; whether they reached the client is noted, be it there to wait or not."""
    try:
        taken = await task.wait()
        ids = {"x-session-id": taken.session.id, "x-turn-id": ",".join(turn.id for turn in taken.turns)}
        response = _json(encode(taken.turns), headers=headers | ids)
        delivered = await _sent(request, response)
    except asyncio.CancelledError:
        if not task.waiters:  # others will say for themselves
            task.when_done(partial(_note_loss, task))
        raise
    taken.note_delivery(delivered=delivered)
    return response


def _note_loss(task: WaitedTask[Taken]) -> None:
    if task.result is not None:
        task.result.note_delivery(delivered=False)


async def _sent(request: web.Request, response: web.Response) -> bool:
    """Send a response; whether all of it went out to a client that was there."""
    try:
        await response.prepare(request)
        await response.write_eof()
    except ConnectionError:
        return False
    return request.transport is not None and not request.transport.is_closing()


async def _last_word(request: web.Request, refusal: web.Response) -> web.Response:
    """Answer and hang up, so that the rest of a body that cannot be taken is not unpacked to be thrown away."""
    refusal.force_close()
    await refusal.prepare(request)
    await refusal.write_eof()
    request.protocol.pause_reading()
    await asyncio.sleep(_FAREWELL_S)
    request.protocol.force_close()
    return refusal


def _refuse_other_media(request: web.Request) -> None:
    """Bodies are JSON: a client that says otherwise is told so; one that says nothing is believed."""
    kind = request.content_type
    if kind not in ("application/json", "application/octet-stream") and not kind.endswith("+json"):
        raise BadRequest(f"a body of {kind:.80} is not read here: send Content-Type: application/json", status=415)


def _json(body: bytes, *, status: int = 200, headers: dict[str, str] | None = None) -> web.Response:
    return web.Response(body=body, status=status, content_type="application/json", headers=headers)


def _new_id(kind: str) -> str:
    return f"{kind}_{secrets.token_hex(12)}"
