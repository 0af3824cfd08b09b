"""A call over HTTP: joined, replayed or begun, and answered."""

import asyncio
import re
import secrets
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from time import perf_counter

import structlog
from aiohttp import web

from gateway.core.types import TurnRequest, deltas
from gateway.edge.body import json_answer, refuse_other_media
from gateway.edge.delivery import ClientLeft, conclude, watched
from gateway.edge.deps import Deps
from gateway.edge.failure import RESULT, noted
from gateway.edge.feed import Feed
from gateway.edge.labels import labels_of
from gateway.edge.phases import Phases
from gateway.edge.request_id import request_id_of
from gateway.edge.retries import Retries, Taken, digest_of, sending_of
from gateway.edge.session import TurnCall
from gateway.edge.sessions import Sessions
from gateway.edge.stream import Stream, Streams
from gateway.edge.tasks import WaitedTask, WaitedTasks
from gateway.edge.turn import take_turn
from gateway.errors import BadRequest
from gateway.wire.dialect import Dialect
from gateway.wire.generate import RANK_HEADER
from gateway.wire.noise import Noise
from gateway.wire.pause import header_value
from gateway.wire.session_id import checked_session_id

log = structlog.get_logger()

_Headers = dict[str, str]

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
        streams: Streams,
        noise: Noise,
        tag_headers: Sequence[str],
    ) -> None:
        self.tasks = tasks
        self.retries = retries
        self._deps = deps
        self._sessions = sessions
        self._streams = streams
        self._noise = noise
        self._tag_headers = tag_headers
        self._feeds: dict[WaitedTask[Taken], Feed] = {}
        # Of each streamed call that is under way, what it says.

    async def take(self, request: web.Request, dialect: Dialect) -> web.StreamResponse:
        """Answer a call in a dialect: with the turns of the one that it repeats, or with turns of its own."""
        arrived_s = perf_counter()
        refuse_other_media(request)
        body = await request.read()
        there_s = perf_counter()

        def read() -> tuple[TurnRequest, bytes]:
            return dialect.decode(body, self._noise), digest_of(dialect.NAME, body)

        asked, digest = read() if len(body) < _LARGE_BODY_BYTES else await asyncio.to_thread(read)
        self._deps.metrics.took("decode", perf_counter() - there_s)
        named = request.match_info.get("sid") or request.headers.get("X-Session-ID") or asked.session_hint
        rank_number = _rank_number(request)
        scope = checked_session_id(named) if named else None
        asked = replace(asked, labels=labels_of(request.headers, self._tag_headers))
        headers: dict[str, str] = {}
        sending = sending_of(scope, digest, request.headers)
        task = self.retries.find(sending)
        if task is None:
            task = self._begin(asked, scope, request_id_of(request), rank_number, dialect.NAME, arrived_s)
            self.retries.add(sending, task)
        else:
            headers[_REPLAYED] = "true"
            self._deps.metrics.retries.inc("joined" if task.running else "replayed")
        try:
            answer = self._streamed if asked.stream else self._whole
            with watched(request, self._streams.stall_s):
                return await answer(request, asked, dialect, task, headers)
        except (ClientLeft, asyncio.CancelledError) as left:
            if not task.waiters:  # others will say for themselves
                task.when_done(partial(_note_loss, task))
            if isinstance(left, ClientLeft):
                return web.Response()  # goes nowhere
            raise

    def _begin(
        self,
        asked: TurnRequest,
        named: str | None,
        request_id: str,
        rank_number: int | None,
        dialect: str,
        arrived_s: float,
    ) -> WaitedTask[Taken]:
        phases = Phases()
        with phases.timed("match"):
            session_id = named or self._sessions.found(asked) or _new_id("s")
        turn_ids = tuple(_new_id("turn") for _ in range(asked.n))
        version = self._deps.versions.now
        feed = Feed(session_id, turn_ids, self._streams.room_bytes, version) if asked.stream else None
        call = TurnCall(
            session_id,
            asked,
            turn_ids,
            request_id,
            dialect,
            anonymous=not named,
            version=version,
            rank_number=rank_number,
            arrived_s=arrived_s,
            phases=phases,
            feed=feed,
        )
        call.tell, call.is_alone = self.tasks.fail, self.tasks.is_alone
        about = {"session_id": session_id, "request_id": request_id}
        task = self.tasks.start(self._turns(call), may_cancel=lambda: not call.sealed, about=about)
        if feed is not None:
            self._feeds[task] = feed
            task.when_done(lambda: self._feeds.pop(task).end())
        return task

    async def _turns(self, call: TurnCall) -> Taken:
        # The session is held by the task, not by the request: a turn is recorded after its client has left.
        try:
            with self._sessions.entered(call) as session:
                call.request = session.terms.governed(call.request)
                turns = await take_turn(call, session, self._deps)
                self._sessions.note(session, call.request.messages, turns)
                return Taken(session, turns, call.version)
        finally:
            call.phases.tell(self._deps.metrics)

    async def _whole(
        self, request: web.Request, asked: TurnRequest, dialect: Dialect, task: WaitedTask[Taken], headers: _Headers
    ) -> web.StreamResponse:
        """Wait for the turns and send them."""
        taken = await task.wait()
        encode = partial(dialect.encode, taken.turns, asked, created_s=int(time.time()), text_of=self._deps.text_of)
        # Twenty thousand ids with their logprobs take 60 ms, and with alternatives two seconds.
        began_s = perf_counter()
        body = await asyncio.to_thread(encode) if asked.top_logprobs is not None else encode()
        self._deps.metrics.took("encode", perf_counter() - began_s)
        ids = [turn.id for turn in taken.turns]
        response = json_answer(body, headers=headers | _facts(taken.session.id, ids, taken.version))
        try:
            await response.prepare(request)
        except ConnectionError:
            raise ClientLeft from None
        await conclude(request, response)
        _note_delivery(request, taken, headers)
        return response

    async def _streamed(
        self, request: web.Request, asked: TurnRequest, dialect: Dialect, task: WaitedTask[Taken], headers: _Headers
    ) -> web.StreamResponse:
        """Send what is said while it is said. A failure is an answer of its own until the engine has begun its own."""
        with task.attended():
            feed = self._feeds.get(task) or _repeated(await task.wait(), self._streams.room_bytes)
            with self._streams.opened(request, feed) as reader:
                heard = await reader.wait(self._streams.keep_alive_s)
                if heard and reader.has_ended:
                    await task.wait()  # which raises what failed
                facts = _facts(feed.session_id, feed.turn_ids, feed.version)
                stream = Stream(request, self._streams, headers | facts)
                await stream.open()
                answer = dialect.stream(feed, asked, created_s=int(time.time()), text_of=self._deps.text_of)
                try:
                    if not heard:
                        await stream.hold(reader)
                    await stream.send([answer.opening()])
                    await stream.read(reader, answer)
                    taken = await task.wait()
                    await stream.send(answer.closing(taken.turns))
                    await stream.close()
                    _note_delivery(request, taken, headers)
                except ClientLeft:
                    raise
                except Exception as error:  # noqa: BLE001  # it is noted, and told
                    _note_loss(task)
                    await stream.send([answer.failure(noted(error, request, self._deps.metrics))])
                    await stream.close()
                finally:
                    self._deps.metrics.took("encode", stream.encode_s)
        return stream.response


def _rank_number(request: web.Request) -> int | None:
    """The rank that the caller insists on.

    Raises:
        BadRequest: it names none.
    """
    said = request.headers.get(RANK_HEADER)
    if said is not None and not re.fullmatch("[0-9]{1,4}", said):
        raise BadRequest(f"the header {RANK_HEADER} must be the number of a data-parallel rank", param=RANK_HEADER)
    return None if said is None else int(said)


def _note_delivery(request: web.Request, taken: Taken, headers: _Headers) -> None:
    """An answer has reached its client."""
    taken.note_delivery(delivered=True)
    request.setdefault(RESULT, "replayed" if _REPLAYED in headers else "answered")
    if _REPLAYED in headers:
        about = {"session_id": taken.session.id, "request_id": request_id_of(request)}
        log.info("replay", turn_ids=[turn.id for turn in taken.turns], **about)


def _note_loss(task: WaitedTask[Taken]) -> None:
    """An answer, if there is one, has not reached its client."""
    if task.result is not None:
        task.result.note_delivery(delivered=False)


def _facts(session_id: str, turn_ids: Sequence[str], version: str) -> _Headers:
    """What the head of an answer says of it: the policy version is that when the call came."""
    return {"x-session-id": session_id, "x-turn-id": ",".join(turn_ids), "x-policy-version": header_value(version)}


def _repeated(taken: Taken, room_bytes: int) -> Feed:
    """A call that is recorded, said once more."""
    feed = Feed(taken.session.id, [turn.id for turn in taken.turns], room_bytes, taken.version)
    feed.prompt_ids = taken.turns[0].prompt_ids().tolist()
    feed.evidence = [turn.completion.evidence for turn in taken.turns]
    for index, turn in enumerate(taken.turns):
        feed.add_rest(index, deltas(turn.message), 0)
    feed.end()
    return feed


def _new_id(kind: str) -> str:
    return f"{kind}_{secrets.token_hex(12)}"
