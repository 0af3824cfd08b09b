"""A session's life beside its turns, from its making to its end. All of it is the harness' business."""

import secrets
from urllib.parse import quote

from aiohttp import web

from gateway.edge.body import body_of, json_answer
from gateway.edge.retries import Retries
from gateway.edge.sessions import Sessions
from gateway.edge.store import Store
from gateway.edge.tasks import WaitedTasks
from gateway.errors import BadRequest
from gateway.wire import sessions as wire
from gateway.wire.session_id import checked_session_id

_SID = "{sid:(?!.*/(?:v1/|(?:turns|trajectories|finish)$)).+}"
"""A session alone: paths of its parts, asked with the wrong method, are not sessions of a longer name."""


class Lifecycle:
    """The handlers, and what they share."""

    def __init__(self, sessions: Sessions, tasks: WaitedTasks, retries: Retries, store: Store) -> None:
        self._sessions = sessions
        self._tasks = tasks
        self._retries = retries
        self._store = store

    def routes(self) -> list[web.RouteDef]:
        """Every route of sessions as such."""
        return [
            web.post("/sessions", self.create),
            web.get("/sessions", self.listing),
            web.post("/sessions/{sid:.+}/finish", self.finish),
            web.get(f"/sessions/{_SID}", self.show),
            web.delete(f"/sessions/{_SID}", self.delete),
            web.post("/trajectories/ack", self.ack),
        ]

    async def create(self, request: web.Request) -> web.Response:
        """A session with terms of its own, and the URL under which an agent speaks in it."""
        asked = wire.decode_creation(await body_of(request))
        named = request.headers.get("X-Session-ID")
        session_id = checked_session_id(asked.session_id or named or f"s_{secrets.token_hex(12)}")
        if named and named != session_id:
            what = f"the body names the session {session_id[:80]!r}, the header X-Session-ID {named[:80]!r}"
            raise BadRequest(f"{what}: they must be the same, or one be left out", param="session_id")
        self._sessions.create(session_id, asked.terms)
        base_url = f"{request.scheme}://{request.host}/sessions/{quote(session_id)}/v1"
        return json_answer(wire.encode_created(session_id, base_url), status=201)

    async def listing(self, request: web.Request) -> web.Response:
        """The sessions, in the order in which they came to exist."""
        return json_answer(wire.encode_sessions(*self._sessions.listing(wire.decode_page(request.query))))

    async def show(self, request: web.Request) -> web.Response:
        """One session."""
        return json_answer(wire.encode_session(self._sessions.get(request.match_info["sid"]).state()))

    async def finish(self, request: web.Request) -> web.Response:
        """The end of a session, with its reward; repeated to change it."""
        body = await body_of(request)
        session = self._sessions.get(request.match_info["sid"], even_in_first_call=True)
        self._sessions.finish(session, wire.decode_finish(body, session.terms.metadata))
        return json_answer(wire.encode_session(session.state()))

    async def delete(self, request: web.Request) -> web.Response:
        """No session any more. It is deleted to the end even if the client does not wait for that."""
        deletion = self._sessions.delete(request.match_info["sid"], self._store, self._retries.forget)
        await self._tasks.start(deletion, may_cancel=lambda: False).wait()
        return web.Response(status=204)

    async def ack(self, request: web.Request) -> web.Response:
        """What was pulled is safe elsewhere; freed to the end, as in `delete`."""
        session_ids = wire.decode_ack(await body_of(request))
        freeing = self._sessions.ack(session_ids, self._store, self._retries.forget)
        freed = await self._tasks.start(freeing, may_cancel=lambda: False).wait()
        return json_answer(wire.encode_freed(freed))
