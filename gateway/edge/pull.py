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
        """One; HEAD would be answered with the rows themselves."""
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
            rollouts = self._standing(places, query)
            return await written(request, in_one(media, _whole(rollouts, query)), media)
        digest = digest_of([query.digest, status, group_id])
        cursor = PullCursor(0, digest) if query.cursor is None else decode_pull_cursor(query.cursor, digest)
        return await written(request, _page(self._rest(places, cursor, query), query, cursor), media)

    def _places(self, status: str, group_id: str | None) -> list[_Place]:
        """The rollouts that are asked for, in their order."""
        places: list[_Place] = []
        for rollout in self._sessions.rollouts.all():
            members = [session for session in rollout.sessions if group_id in (None, session.terms.group_id)]
            if members and (status == "all" or (rollout.place > 0) == (status == "finished")):
                places.append((rollout.place if status == "finished" else rollout.number, members))
        return sorted(places, key=lambda place: place[0])

    def _standing(self, places: Sequence[_Place], query: RowsQuery) -> list[_Standing]:
        """Rollouts as they are now."""
        versions = len(self._versions)
        fresh = self._versions.fresh(query.selection.max_staleness, versions)
        standing = []
        for place, members in places:
            moments = tuple((member.number, moment_of(member.ledger)) for member in members)
            standing.append(_Standing(place, moments, _shares(members, moments), versions, fresh))
        return standing

    def _rest(self, places: Sequence[_Place], cursor: PullCursor, query: RowsQuery) -> list[_Standing]:
        """What is still to be read, the rest of a rollout first; no more than can be looked at, and one.

        A rollout of which a session was freed meanwhile is read again as it now is: else what is left would be missed.
        """
        within = cursor.within
        first = cursor.place if within else cursor.place + 1
        rest = [place for place in places if place[0] >= first][: _PAGE_ROLLOUTS + 1]
        standing = self._standing(rest, query)
        if within is None or not rest or rest[0][0] != cursor.place:
            return standing
        members = rest[0][1]
        if not {member.number for member in members} >= {number for number, _ in within.moments}:
            return standing
        fresh = self._versions.fresh(query.selection.max_staleness, within.versions)
        shares = _shares(members, within.moments)
        begun = _Standing(cursor.place, within.moments, shares, within.versions, fresh, within.start)
        return [begun, *standing[1:]]


def _shares(members: Sequence[Session], moments: Sequence[tuple[int, Moment]]) -> list[Share]:
    known = {member.number: member for member in members}
    return [Share(known[number].ledger, moment, known[number].of_rows()) for number, moment in moments]


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
        room -= len(parts[-1][1])
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
