"""What trainers read over HTTP: turns and rows."""

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import structlog
from aiohttp import web

from gateway.core.fate import fates, moment_of
from gateway.core.rows import Rollout
from gateway.core.segments import Share
from gateway.core.types import JsonObject
from gateway.core.versions import Versions
from gateway.edge.log import where
from gateway.edge.session import Session
from gateway.edge.sessions import Sessions
from gateway.errors import BadRequest, ConfigError
from gateway.wire.accept import negotiated
from gateway.wire.arrow import arrow_stream, need_pyarrow
from gateway.wire.cursor import Cursor, decode_cursor
from gateway.wire.export import PAGE_ROWS, PAGE_TURNS, encode_lines, encode_page, told_turn
from gateway.wire.rows import excluded_objects, row_object, with_footer
from gateway.wire.rows_query import RowsQuery, decode_query, digest_of

log = structlog.get_logger()

_GONE = "a session of this rollout was deleted since the first page: begin anew, without cursor"

JSON, LINES, COLUMNS = "application/json", "application/x-ndjson", "application/vnd.apache.arrow.stream"


@dataclass(frozen=True, slots=True)
class Reading:
    """One session's rows, to be read as those of its rollout."""

    query: RowsQuery
    shares: Sequence[Share]
    """What the sessions of the rollout give to it."""
    own: int
    """Which of them is read."""
    fresh: frozenset[str] | None

    def rollout(self) -> Rollout:
        """All of its rows. Costs the number of turns."""
        return Rollout(self.shares, self.query.selection, self.fresh)

    def rows(self, rollout: Rollout, places: range) -> Iterator[JsonObject]:
        """Some of them, written one by one."""
        query = self.query
        return (row_object(rollout[place], query.arrays, query.routed_experts) for place in places)

    def excluded(self, rollout: Rollout) -> list[JsonObject]:
        """The turns that none of them trains."""
        session_id = str(self.shares[self.own].session["session_id"])
        return excluded_objects(session_id, rollout.excluded(self.own))


class Exports:
    """The routes of what was recorded. All that one export tells is of the moment at which it began."""

    def __init__(self, sessions: Sessions, versions: Versions) -> None:
        self._sessions = sessions
        self._versions = versions

    def routes(self) -> list[web.RouteDef]:
        """Every route. HEAD would be answered with the rows themselves, which are streamed."""
        return [
            web.get("/sessions/{sid:.+}/trajectories", self.trajectories, allow_head=False),
            web.get("/sessions/{sid:.+}/turns", self.turns, allow_head=False),
        ]

    async def trajectories(self, request: web.Request) -> web.StreamResponse:
        """The session as training rows."""
        query = decode_query(request.query.items())
        media, query = await form_of(request, query)
        session = self._sessions.get(request.match_info["sid"])
        cursor = self._cursor(session, query)
        reading = self._reading(session, query, cursor)
        pieces = _page(reading, cursor) if media == JSON else in_one(media, _whole(reading))
        return await written(request, pieces, media)

    async def turns(self, request: web.Request) -> web.StreamResponse:
        """The session's turns, oldest first."""
        session = self._sessions.get(request.match_info["sid"])
        text = request.query.get("cursor")
        digest = digest_of(["turns", session.number])
        here = Cursor(0, 0, digest, ((session.number, moment_of(session.ledger)),))
        cursor = here if text is None else decode_cursor(text, digest)
        if [number for number, _ in cursor.moments] != [session.number]:
            raise BadRequest(_GONE, param="cursor")
        return await written(request, _turns(session, cursor), JSON)

    def _cursor(self, session: Session, query: RowsQuery) -> Cursor:
        """Where to begin: where an earlier page ended, or here and now."""
        digest = digest_of([query.digest, session.number])
        if query.cursor is not None:
            return decode_cursor(query.cursor, digest)
        members = self._sessions.rollouts.sessions(session.rollout_id)
        moments = tuple((member.number, moment_of(member.ledger)) for member in members)
        return Cursor(0, len(self._versions), digest, moments)

    def _reading(self, session: Session, query: RowsQuery, cursor: Cursor) -> Reading:
        members = {member.number: member for member in self._sessions.rollouts.sessions(session.rollout_id)}
        numbers = [number for number, _ in cursor.moments]
        if session.number not in numbers or not members.keys() >= set(numbers):
            raise BadRequest(_GONE, param="cursor")
        shares = [Share(members[number].ledger, moment, members[number].of_rows()) for number, moment in cursor.moments]
        fresh = self._versions.fresh(query.selection.max_staleness, cursor.versions)
        return Reading(query, shares, numbers.index(session.number), fresh)


def _page(reading: Reading, cursor: Cursor) -> Iterator[bytes]:
    rollout = reading.rollout()
    places = rollout.of_share(reading.own)
    end = cursor.start + PAGE_ROWS
    following = str(replace(cursor, start=end)) if end < len(places) else None
    excluded = reading.excluded(rollout) if following is None else []
    yield from encode_page(reading.rows(rollout, places[cursor.start : end]), following, {"excluded": excluded})


def _whole(reading: Reading) -> Iterator[JsonObject]:
    rollout = reading.rollout()
    rows = reading.rows(rollout, rollout.of_share(reading.own))
    yield from with_footer(rows, lambda: reading.excluded(rollout)) if reading.query.footer else rows


def _turns(session: Session, cursor: Cursor) -> Iterator[bytes]:
    ((_, moment),) = cursor.moments
    fate = fates(session.ledger, moment)
    end = cursor.start + PAGE_TURNS
    turns = session.ledger.turns[: moment.turns]
    following = str(replace(cursor, start=end)) if end < len(turns) else None
    yield from encode_page((told_turn(turn, fate(turn)) for turn in turns[cursor.start : end]), following)


async def form_of(request: web.Request, query: RowsQuery) -> tuple[str, RowsQuery]:
    """The media type in which rows are written, and the query as that has it.

    Raises:
        BadRequest: none is to be had that the client takes, or the query does not go with it.
    """
    media = negotiated(request.headers.getall("Accept", ()), (JSON, LINES, COLUMNS))
    if media == JSON and query.footer:
        raise BadRequest(f"a page has no footer: ask for one with Accept: {LINES}", param="footer")
    if media != JSON and query.cursor is not None:
        raise BadRequest(f"{media} comes all at once: ask for pages with Accept: {JSON}", param="cursor")
    if media != COLUMNS:
        return media, query
    try:
        await asyncio.to_thread(need_pyarrow)
    except ConfigError as error:
        raise BadRequest(f"{error}, or ask for another form in Accept", status=406) from None
    return media, replace(query, arrays="base64")  # which is sooner read than a list


def in_one(media: str, items: Iterator[JsonObject]) -> Iterator[bytes]:
    """All rows in one answer that is no page."""
    return encode_lines(items) if media == LINES else arrow_stream(items)


async def written(request: web.Request, pieces: Iterator[bytes], media: str) -> web.StreamResponse:
    """Answer with what is made piece by piece and in a thread: one row of a long context takes a second."""
    response = web.StreamResponse()
    response.content_type = media
    await response.prepare(request)
    try:
        while (piece := await asyncio.to_thread(next, pieces, None)) is not None:
            await response.write(piece)
        await response.write_eof()
    except Exception as error:
        if not isinstance(error, ConnectionError):  # that is only a client that has left
            log.exception("an export failed halfway", path=request.path, **where())
        if request.transport is not None:
            request.transport.abort()  # what was sent is no answer, and must not look like one
    return response
