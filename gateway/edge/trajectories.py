"""What trainers read of one session over HTTP: its turns and its rows."""

from collections.abc import Callable, Iterator
from dataclasses import replace

from aiohttp import web

from gateway.core.fate import fates, moment_of
from gateway.edge.rows_answer import JSON, RowsAnswers
from gateway.edge.session import Session
from gateway.edge.sessions import Sessions
from gateway.edge.standing import Reading, Standing
from gateway.errors import BadRequest
from gateway.wire.cursor import Cursor, Place, decode_cursor
from gateway.wire.pages import PAGE_ROWS, PAGE_TURNS, encode_page
from gateway.wire.rows_query import RowsQuery, decode_query, digest_of
from gateway.wire.turns import ids_of, told_turn

_GONE = "a session of this rollout was deleted since the first page: begin anew, without cursor"


class Trajectories:
    """The routes of one session. All that one reading tells is of the moment at which it began."""

    def __init__(self, sessions: Sessions, reading: Callable[[RowsQuery], Reading], answers: RowsAnswers) -> None:
        self._sessions = sessions
        self._reading = reading
        self._answers = answers

    def routes(self) -> list[web.RouteDef]:
        """Every route. HEAD would be answered with the rows themselves, which are streamed."""
        return [
            web.get("/sessions/{sid:.+}/trajectories", self.trajectories, allow_head=False),
            web.get("/sessions/{sid:.+}/turns", self.turns, allow_head=False),
        ]

    async def trajectories(self, request: web.Request) -> web.StreamResponse:
        """The session as training rows."""
        query = decode_query(request.query.items())
        media, query = await self._answers.form_of(request, query)
        session = self._sessions.get(request.match_info["sid"])
        digest = digest_of([query.digest, session.number])
        reading = self._reading(query)
        standing = self._standing(session, reading, digest)
        if media != JSON:
            return await self._answers.all_in_one(request, reading.whole([standing]), media)
        return await self._answers.written(request, reading.page([standing], Cursor(session.number, digest)))

    def _standing(self, session: Session, reading: Reading, digest: str) -> Standing:
        members = self._sessions.rollouts.sessions(session.rollout_id)
        if reading.query.cursor is None:
            return reading.now(session.number, members, session)
        within = decode_cursor(reading.query.cursor, digest).within
        begun = reading.begun(session.number, members, within, session) if within else None
        if begun is None or session not in begun.sessions:
            raise BadRequest(_GONE, param="cursor")
        return begun

    async def turns(self, request: web.Request) -> web.StreamResponse:
        """The session's turns, oldest first."""
        session = self._sessions.get(request.match_info["sid"])
        text, shown = request.query.get("cursor"), request.query.get("ids", "false")
        if shown not in ("true", "false"):
            raise BadRequest("ids must be true or false", param="ids")
        digest = digest_of(["turns", session.number])
        here = Cursor(session.number, digest, Place(0, 0, ((session.number, moment_of(session.ledger)),)))
        cursor = here if text is None else decode_cursor(text, digest)
        if cursor.within is None or [number for number, _ in cursor.within.moments] != [session.number]:
            raise BadRequest(_GONE, param="cursor")
        return await self._answers.written(request, _turns(session, cursor, cursor.within, ids=shown == "true"))


def _turns(session: Session, cursor: Cursor, within: Place, *, ids: bool) -> Iterator[bytes]:
    ((_, moment),) = within.moments
    fate = fates(session.ledger, moment)
    end = within.start + (PAGE_ROWS if ids else PAGE_TURNS)  # each repeats its context, as rows do
    turns = session.ledger.turns[: moment.turns]
    following = str(replace(cursor, within=replace(within, start=end))) if end < len(turns) else None
    told = (told_turn(turn, fate(turn)) | (ids_of(turn) if ids else {}) for turn in turns[within.start : end])
    yield from encode_page(told, following)
