"""The rows of many sessions, as a trainer pulls them: rollout by rollout, in an order that a cursor can hold on to.

Finished rollouts come in the order in which they ended: when the last of their sessions was finished and had no call
under way any more. Others come in the order in which they came to exist. So what ends or begins later stands behind
whatever has been read, and a rollout that is finished again with another reward keeps its place. One that gets another
session later moves to the end, and is read there as a whole.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from aiohttp import web

from gateway.core.fate import Moment, moment_of
from gateway.core.rows import Rollout
from gateway.core.segments import Share
from gateway.core.types import JsonObject
from gateway.core.versions import Versions
from gateway.edge.exports import JSON, form_of, in_one, written
from gateway.edge.session import Session
from gateway.edge.sessions import Sessions
from gateway.errors import BadRequest
from gateway.wire.cursor import Cursor, PullCursor, decode_pull_cursor
from gateway.wire.export import PAGE_ROWS, encode_page
from gateway.wire.rows import excluded_objects, row_object, with_footer
from gateway.wire.rows_query import RowsQuery, decode_query, digest_of

_STATUSES = ("finished", "open", "all")
_PAGE_ROLLOUTS = PAGE_ROWS
"""Looked at for one page: many rollouts may have no row."""

_Place = tuple[int, list[Session]]


@dataclass(frozen=True, slots=True)
class _Standing:
    """A rollout in its place, as it was at a moment."""

    place: int
    moments: tuple[tuple[int, Moment], ...]
    """How much its sessions knew, each by its number."""
    shares: Sequence[Share]
    versions: int
    """How many policy versions were known."""
    fresh: frozenset[str] | None
    start: int = 0
    """How many of its rows were read before."""


class Pull:
    """The route of rows of many sessions."""

    def __init__(self, sessions: Sessions, versions: Versions) -> None:
        self._sessions = sessions
        self._versions = versions

    def routes(self) -> list[web.RouteDef]:
        """Every route."""
        return [web.get("/trajectories", self.trajectories, allow_head=False)]

    async def trajectories(self, request: web.Request) -> web.StreamResponse:
        """The rows of the sessions that are asked for."""
        query = decode_query(request.query.items(), ("status", "group_id"))
        media, query = await form_of(request, query)
        status, group_id = request.query.get("status", "finished"), request.query.get("group_id")
        if status not in _STATUSES:
            raise BadRequest(f"status must be {' or '.join(_STATUSES)}", param="status")
        places = self._places(status, group_id)
        if media != JSON:
            rollouts = [self._standing(place, query) for place in places]
            return await written(request, in_one(media, _whole(rollouts, query)), media)
        digest = digest_of([query.digest, status, group_id])
        cursor = PullCursor(0, digest) if query.cursor is None else decode_pull_cursor(query.cursor, digest)
        return await written(request, _page(self._rest(places, cursor, query), query, cursor), media)

    def _places(self, status: str, group_id: str | None) -> list[_Place]:
        """The rollouts that are asked for, in their order."""
        places: list[_Place] = []
        for rollout in self._sessions.rollouts():
            members = [session for session in rollout if group_id in (None, session.terms.group_id)]
            ended = all(session.place for session in members)
            if members and (status == "all" or ended == (status == "finished")):
                last = max((s.place if status == "finished" else s.number) for s in members)
                places.append((last, members))
        return sorted(places, key=lambda place: place[0])

    def _standing(self, place: _Place, query: RowsQuery, within: Cursor | None = None) -> _Standing:
        """A rollout as it is now, or as it was when a part of it was read."""
        number, members = place
        moments = within.moments if within else tuple((member.number, moment_of(member.ledger)) for member in members)
        known = {member.number: member for member in members}
        shares = [Share(known[member].ledger, moment, known[member].of_rows()) for member, moment in moments]
        versions = within.versions if within else len(self._versions)
        fresh = self._versions.fresh(query.selection.max_staleness, versions)
        return _Standing(number, moments, shares, versions, fresh, within.start if within else 0)

    def _rest(self, places: Sequence[_Place], cursor: PullCursor, query: RowsQuery) -> list[_Standing]:
        """What is still to be read, the rest of a rollout first; no more than can be looked at, and one.

        A rollout of which a session was freed meanwhile is read again as it now is: else what is left would be missed.
        """
        rest = [place for place in places if place[0] > cursor.place][: _PAGE_ROLLOUTS + 1]
        standing = [self._standing(place, query) for place in rest]
        begun = next((place for place in places if cursor.within and place[0] == cursor.place), None)
        if begun is None or cursor.within is None:
            return standing
        whole = {member.number for member in begun[1]} >= {number for number, _ in cursor.within.moments}
        return [self._standing(begun, query, cursor.within if whole else None), *standing]


def _page(rest: Sequence[_Standing], query: RowsQuery, cursor: PullCursor) -> Iterator[bytes]:
    """A page of what is still to be read, with what no row trains of the rollouts that end in it."""
    parts: list[tuple[Rollout, range]] = []
    excluded: list[JsonObject] = []
    room, following = PAGE_ROWS, None
    for standing in rest:
        if not room or len(parts) == _PAGE_ROLLOUTS:
            following = cursor
            break
        rollout = Rollout(standing.shares, query.selection, standing.fresh)
        end = min(len(rollout), standing.start + room)
        parts.append((rollout, range(standing.start, end)))
        room -= end - standing.start
        if end < len(rollout):
            within = Cursor(end, standing.versions, cursor.query, standing.moments)
            following = replace(cursor, place=standing.place, within=within)
            break
        excluded += _excluded(standing, rollout)
        cursor = replace(cursor, place=standing.place, within=None)
    rows = (_row(rollout, place, query) for rollout, places in parts for place in places)
    yield from encode_page(rows, str(following) if following else None, {"excluded": excluded})


def _whole(rollouts: Sequence[_Standing], query: RowsQuery) -> Iterator[JsonObject]:
    """All rows, and a footer if it is asked for."""
    excluded: list[JsonObject] = []

    def rows() -> Iterator[JsonObject]:
        for standing in rollouts:
            rollout = Rollout(standing.shares, query.selection, standing.fresh)
            for place in range(len(rollout)):
                yield _row(rollout, place, query)
            if query.footer:
                excluded.extend(_excluded(standing, rollout))

    return with_footer(rows(), lambda: excluded) if query.footer else rows()


def _row(rollout: Rollout, place: int, query: RowsQuery) -> JsonObject:
    return row_object(rollout[place], query.arrays, query.routed_experts)


def _excluded(standing: _Standing, rollout: Rollout) -> Iterator[JsonObject]:
    for position, share in enumerate(standing.shares):
        yield from excluded_objects(str(share.session["session_id"]), rollout.excluded(position))
