"""A call over HTTP: joined, replayed or begun, and answered."""

import asyncio
import secrets
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import structlog
from aiohttp import web

from gateway.core.turn import Turn
from gateway.core.types import TurnRequest
from gateway.edge.body import json_answer, refuse_other_media
from gateway.edge.labels import labels_of
from gateway.edge.request_id import request_id_of
from gateway.edge.retries import Retries, Taken, digest_of, sending_of
from gateway.edge.session import TurnCall
from gateway.edge.sessions import Sessions
from gateway.edge.tasks import WaitedTask, WaitedTasks
from gateway.edge.turn import Deps, take_turn
from gateway.wire.dialect import Dialect
from gateway.wire.noise import Noise
from gateway.wire.session_id import checked_session_id

log = structlog.get_logger()

_REPLAYED = "x-gateway-replayed"
_LARGE_BODY_BYTES = 1 << 20
"""From here on, decoding would hold up everybody else for tens of milliseconds."""


class Calls:
    """The calls of one application, and what they share."""

    def __init__(
        self,
        deps: Deps,
        sessions: Sessions,
        tasks: WaitedTasks,
        retries: Retries,
        *,
        noise: Noise,
        tag_headers: Sequence[str],
    ) -> None:
        self.tasks = tasks
        self.retries = retries
        self._deps = deps
        self._sessions = sessions
        self._noise = noise
        self._tag_headers = tag_headers

    async def take(self, request: web.Request, dialect: Dialect) -> web.Response:
        """Answer a call in a dialect: with the turns of the one that it repeats, or with turns of its own."""
        refuse_other_media(request)
        body = await request.read()

        def read() -> tuple[TurnRequest, bytes]:
            return dialect.decode(body, self._noise), digest_of(dialect.NAME, body)

        asked, digest = read() if len(body) < _LARGE_BODY_BYTES else await asyncio.to_thread(read)
        named = request.match_info.get("sid") or request.headers.get("X-Session-ID") or asked.session_hint
        scope = checked_session_id(named) if named else None
        asked = replace(asked, labels=labels_of(request.headers, self._tag_headers))
        headers: dict[str, str] = {}
        sending = sending_of(scope, digest, request.headers)
        task = self.retries.find(sending)
        if task is None:
            task = self._begin(asked, scope, request_id_of(request))
            self.retries.add(sending, task)
        else:
            headers[_REPLAYED] = "true"
            self._deps.metrics.replays.inc()
        encode = partial(dialect.encode, request=asked, created_s=int(time.time()))
        return await _answer(request, task, encode, headers)

    def _begin(self, asked: TurnRequest, named: str | None, request_id: str) -> WaitedTask[Taken]:
        session_id = named or self._sessions.found(asked) or _new_id("s")
        turn_ids = tuple(_new_id("turn") for _ in range(asked.n))
        call = TurnCall(session_id, asked, turn_ids, request_id, anonymous=not named, tell=self.tasks.fail)
        about = {"session_id": session_id, "request_id": request_id}
        return self.tasks.start(self._turns(call), may_cancel=lambda: not call.sealed, **about)

    async def _turns(self, call: TurnCall) -> Taken:
        # The session is held by the task, not by the request: a turn is recorded after its client has left.
        with self._sessions.entered(call) as session:
            call.request = session.governed(call.request)
            turns = await take_turn(call, session, self._deps)
            self._sessions.note(session, call.request.messages, turns)
            return Taken(session, turns)


async def _answer(
    request: web.Request, task: WaitedTask[Taken], encode: Callable[[Sequence[Turn]], bytes], headers: dict[str, str]
) -> web.Response:
    """Wait for the turns and send them; whether they reached the client is noted, be it there to wait or not."""
    try:
        taken = await task.wait()
        ids = {"x-session-id": taken.session.id, "x-turn-id": ",".join(turn.id for turn in taken.turns)}
        response = json_answer(encode(taken.turns), headers=headers | ids)
        delivered = await _sent(request, response)
    except asyncio.CancelledError:
        if not task.waiters:  # others will say for themselves
            task.when_done(partial(_note_loss, task))
        raise
    taken.note_delivery(delivered=delivered)
    if _REPLAYED in headers:
        log.info(
            "replay",
            session_id=taken.session.id,
            request_id=request_id_of(request),
            turn_ids=[turn.id for turn in taken.turns],
        )
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


def _new_id(kind: str) -> str:
    return f"{kind}_{secrets.token_hex(12)}"
