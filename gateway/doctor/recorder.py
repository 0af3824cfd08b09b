"""What an agent asked of a gateway, call by call, noted beside it: the gateway itself keeps no bodies."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import orjson
from aiohttp import web

from gateway.edge.server import Handler
from gateway.wire import chat
from gateway.wire.dialect import Dialect

DIALECTS: Mapping[str, Dialect] = {"/v1/chat/completions": chat}
"""Where turns are taken, and in which dialect."""
_MOST_CHARS = 300
"""Of what an error says."""


@dataclass(slots=True, eq=False)
class Call:
    """One request for a turn, or for something that the gateway does not have."""

    method: str
    path: str
    """Behind the session."""
    marked: bool
    """Whether its client says that it repeats another."""
    body: bytes = b""
    status: int | None = None
    """``None`` where its client left before there was an answer."""
    turn_ids: tuple[str, ...] = ()
    session_id: str | None = None
    replayed: bool = False
    """Whether the answer was given before."""
    refusal: str = ""
    """What an error said."""


_CALL = web.RequestKey("CALL", Call)


@dataclass(slots=True)
class Recorder:
    """Notes the agent's calls to an application; `attach` it before that is served."""

    calls: list[Call] = field(default_factory=list)

    def attach(self, app: web.Application) -> None:
        """Stand beside `app` from now on."""

        @web.middleware
        async def take(request: web.Request, handler: Handler) -> web.StreamResponse:
            return await self._take(request, handler)

        app.middlewares.append(take)
        app.on_response_prepare.append(self._note)

    async def _take(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        known = request.match_info.http_exception is None
        path = request.path[request.path.find("/v1/") :] if "/v1/" in request.path else request.path
        if known and path not in DIALECTS:
            return await handler(request)  # no turn is taken there: models, sessions
        marked = "Idempotency-Key" in request.headers or request.headers.get("x-stainless-retry-count", "0") != "0"
        call = request[_CALL] = Call(request.method, path, marked)
        self.calls.append(call)
        if known:
            call.body = await request.read()  # which the gateway is given again
        return await handler(request)

    async def _note(self, request: web.Request, response: web.StreamResponse) -> None:
        call = request.get(_CALL)
        if call is None:
            return
        call.status = response.status
        call.turn_ids = tuple(filter(None, response.headers.get("x-turn-id", "").split(",")))
        call.session_id = response.headers.get("x-session-id")
        call.replayed = response.headers.get("x-gateway-replayed") == "true"
        if response.status >= 400:
            call.refusal = _said(response)


def _said(response: web.StreamResponse) -> str:
    """What an error says."""
    body = response.body if isinstance(response, web.Response) else None
    try:
        message = orjson.loads(body)["error"]["message"] if isinstance(body, bytes) else ""
    except (orjson.JSONDecodeError, KeyError, TypeError):
        return ""
    return str(message)[:_MOST_CHARS]
