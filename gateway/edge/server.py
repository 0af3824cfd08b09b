"""The HTTP surface: routes, keys, and errors in the caller's dialect."""

import asyncio
import hmac
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial

from aiohttp import web

from gateway.edge.answering import Answering
from gateway.edge.body import json_answer as _json
from gateway.edge.calls import Calls
from gateway.edge.deps import Deps
from gateway.edge.description import Description
from gateway.edge.failure import RESULT, noted
from gateway.edge.lifecycle import Lifecycle
from gateway.edge.pull import Pull
from gateway.edge.request_id import request_id_of
from gateway.edge.rows_answer import RowsAnswers
from gateway.edge.score import Scorer, Scoring
from gateway.edge.sessions import Sessions
from gateway.edge.standing import Reading
from gateway.edge.trajectories import Trajectories
from gateway.errors import BadRequest, Forbidden, TooLarge, Unauthorized
from gateway.wire import chat
from gateway.wire.engines import encode_models

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

_OPEN_ROUTES = {"/health", "/ready", "/openapi.json", "/docs"}
_TURN_ROUTES = {"/v1/chat/completions": chat.NAME}
"""How routes end on which turns are taken, and their dialects."""
_FAREWELL_S = 0.5
"""For the client to read its answer: to hang up on bytes that were not read resets the connection."""


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
            remedy = "use the --admin-key" if self.admin else "nothing does, until the gateway is given an --admin-key"
            raise Forbidden(f"an agent's key does not open this route: {remedy}")
        raise Unauthorized("no valid key: send it as `Authorization: Bearer …` or `x-api-key`")


def _same(shown: str, key: str) -> bool:
    return bool(key) and hmac.compare_digest(shown.encode("utf-8", "surrogateescape"), key.encode())


class Server:
    """The handlers, and what they share."""

    def __init__(
        self, deps: Deps, keys: Keys, sessions: Sessions, calls: Calls, scorer: Scorer, answers: RowsAnswers
    ) -> None:
        self.deps = deps
        self.scorer = scorer
        self.answers = answers
        self.sessions = sessions
        self.calls = calls
        self._keys = keys
        self.answering = Answering()

    def routes(self) -> list[web.RouteDef]:
        """Every route. Agents' routes are those with ``/v1/`` in them."""
        reading = partial(Reading, versions=self.deps.versions, side_arrays=self.deps.side_arrays)
        return [
            web.get("/health", self.health),
            web.get("/ready", self.ready),
            web.get("/metrics", self.metrics),
            *Description().routes(),
            web.post("/v1/chat/completions", self.chat_completions),
            web.post("/sessions/{sid:.+?}/v1/chat/completions", self.chat_completions),
            web.get("/v1/models", self.models),
            web.get("/sessions/{sid:.+?}/v1/models", self.models),
            *Trajectories(self.sessions, reading, self.answers).routes(),
            *Pull(self.sessions, reading, self.answers).routes(),
            *Scoring(self.scorer).routes(),
            *Lifecycle(self.sessions, self.calls.tasks, self.calls.retries, self.deps.store).routes(),
        ]

    async def health(self, _request: web.Request) -> web.Response:
        """The process lives."""
        return web.json_response({"status": "ok"})

    async def ready(self, _request: web.Request) -> web.Response:
        """Some engine takes turns, and new sessions are taken."""
        trouble = self.deps.backends.trouble if self.sessions.takes_new else "draining"
        return web.json_response({"status": trouble or "ready"}, status=503 if trouble else 200)

    async def metrics(self, _request: web.Request) -> web.Response:
        """Prometheus' text format."""
        return web.Response(body=self.deps.metrics.text(), headers={"Content-Type": "text/plain; version=0.0.4"})

    async def models(self, _request: web.Request) -> web.Response:
        """What the engines serve: the list of the one that there is, or those of all as one."""
        answers = await self.deps.backends.relay("/v1/models")
        if len(answers) == 1:
            status, body = answers[0]
            return _json(body, status=status)
        return _json(encode_models([body for status, body in answers if status == 200]))

    async def chat_completions(self, request: web.Request) -> web.StreamResponse:
        """One turn in OpenAI's chat dialect."""
        return await self.calls.take(request, chat)

    @web.middleware
    async def guard(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Check the key, turn every failure into an answer of the dialect: so far, OpenAI's; and count each call."""
        try:
            return await self._answer(request, handler)
        finally:  # cancelled, too: its client has left
            if (dialect := _dialect_of(request)) is not None:
                self.deps.metrics.calls.inc(dialect, request.get(RESULT, "left"))

    async def _answer(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        try:
            if request.path not in _OPEN_ROUTES:
                self._keys.check(request, agent_route=_is_for_agents(request))
            with self.answering.under_way(request):
                return await handler(request)
        except web.RequestPayloadError:
            ill = BadRequest("the body is not what its Content-Encoding or Content-Length says")
            return await _last_word(request, self._refusal(request, ill))
        except web.HTTPRequestEntityTooLarge as error:
            refusal = self._refusal(request, TooLarge(f"the body is over --max-body-bytes: {error.text}"))
            return await _last_word(request, refusal) if "Content-Encoding" in request.headers else refusal
        except web.HTTPException as error:
            return self._refusal(request, _unknown(request, error), allow=error.headers.get("Allow"))
        except Exception as error:  # noqa: BLE001  # it is noted
            return self._refusal(request, error)

    async def sign(self, request: web.Request, response: web.StreamResponse) -> None:
        """Every answer carries its request's id, refusals and streams included.

        When no turns are taken any more, it sends agents away: their next calls are for another gateway.
        """
        response.headers["x-request-id"] = request_id_of(request)
        if self.sessions.admitted == "none" and _is_for_agents(request):
            response.headers["Connection"] = "close"
            response.force_close()

    def _refusal(self, request: web.Request, failure: Exception, *, allow: str | None = None) -> web.Response:
        error = noted(failure, request, self.deps.metrics)
        headers = {"Allow": allow} if allow else {}
        if error.retryable and error.status in (429, 503):
            headers["Retry-After"] = "1"  # second
        if not error.retryable and (error.status >= 500 or error.status in (408, 409, 429)):
            headers["x-should-retry"] = "false"  # SDKs would retry these statuses otherwise
        return _json(chat.encode_error(error), status=error.status, headers=headers)


def _is_for_agents(request: web.Request) -> bool:
    resource = request.match_info.route.resource  # none where there is no such route or method
    return resource is None or "/v1/" in resource.canonical


def _unknown(request: web.Request, error: web.HTTPException) -> BadRequest:
    """What is told of a route or method that is not there; an agent that speaks another dialect is told of ours."""
    speaks = request.method == "POST" and error.status == 404
    taken = f"; turns are taken at {', '.join(_TURN_ROUTES)}" if speaks else ""
    return BadRequest(f"{error.reason}: no such route or method here{taken}", status=error.status)


def _dialect_of(request: web.Request) -> str | None:
    """The dialect whose route of turns a request takes; ``None`` where it takes another, or none."""
    resource = request.match_info.route.resource
    path = resource.canonical if resource is not None else ""
    return next((name for end, name in _TURN_ROUTES.items() if path.endswith(end)), None)


async def _last_word(request: web.Request, refusal: web.Response) -> web.Response:
    """Answer and hang up, so that the rest of a body that cannot be taken is not unpacked to be thrown away."""
    refusal.force_close()
    await refusal.prepare(request)
    await refusal.write_eof()
    request.protocol.pause_reading()
    await asyncio.sleep(_FAREWELL_S)
    request.protocol.force_close()
    return refusal
