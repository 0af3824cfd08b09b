"""Rollouts as they were at a moment, and their rows: page by page, or all."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from gateway.core.fate import Moment, moment_of
from gateway.core.rows import Rollout
from gateway.core.segments import SessionAt
from gateway.core.types import JsonObject
from gateway.core.versions import Versions
from gateway.edge.session import Session
from gateway.wire.cursor import Cursor, Place
from gateway.wire.pages import PAGE_ROWS, encode_page, named
from gateway.wire.rows import excluded_objects, row_object, with_footer
from gateway.wire.rows_query import RowsQuery

PAGE_ROLLOUTS = PAGE_ROWS
"""Looked at for one page: many rollouts may have no row."""


@dataclass(frozen=True, slots=True)
class Standing:
    """A rollout in its place, as it was at a moment. It costs next to nothing: its turns are looked at later."""

    rollout: int
    """Its place."""
    sessions: Sequence[Session]
    moments: tuple[tuple[int, Moment], ...]
    """How much they knew, each by its number."""
    versions: int
    """How many policy versions were known."""
    start: int = 0
    """How many of its rows were read before."""
    own: Session | None = None
    """The one whose rows are read; ``None`` for all."""


@dataclass(frozen=True, slots=True)
class Reading:
    """How rollouts are read: as one query has it."""

    query: RowsQuery
    versions: Versions
    side_arrays: Sequence[str]
    """What was asked of the engines beside ids and logprobs."""

    def now(self, place: int, sessions: Sequence[Session], own: Session | None = None) -> Standing:
        """A rollout as it is now."""
        moments = tuple((session.number, moment_of(session.ledger)) for session in sessions)
        return Standing(place, tuple(sessions), moments, len(self.versions), own=own)  # some may come or go meanwhile

    def begun(
        self, place: int, sessions: Sequence[Session], within: Place, own: Session | None = None
    ) -> Standing | None:
        """The rest of a rollout as it was when it was begun; ``None`` where a session that it had is no more."""
        known = {session.number: session for session in sessions}
        had = [known[number] for number, _ in within.moments if number in known]
        if len(had) < len(within.moments):
            return None
        return Standing(place, had, within.moments, within.versions, within.start, own)

    def page(self, rest: Iterable[Standing], cursor: Cursor) -> Iterator[bytes]:
        """A page of what is still to be read, with what no row trains of the rollouts that end on it."""
        parts: list[Iterator[JsonObject]] = []
        excluded: list[JsonObject] = []
        room, following = PAGE_ROWS, None
        for standing in rest:
            if not room or len(parts) == PAGE_ROLLOUTS:
                following = cursor
                break
            rows = _Rows(standing, self)
            end = min(len(rows), standing.start + room)
            parts.append(rows.part(standing.start, end))
            room -= max(end - standing.start, 0)
            if end < len(rows):
                within = Place(end, standing.versions, standing.moments)
                following = replace(cursor, rollout=standing.rollout, within=within)
                break
            excluded += rows.excluded()
            cursor = replace(cursor, rollout=standing.rollout, within=None)
        written = (row for part in parts for row in part)
        yield from encode_page(written, str(following) if following else None, {"excluded": excluded})

    def whole(self, standings: Iterable[Standing]) -> Iterator[JsonObject]:
        """All rows, and a footer if it is asked for."""
        excluded: list[JsonObject] = []

        def written() -> Iterator[JsonObject]:
            for standing in standings:
                rows = _Rows(standing, self)
                yield from rows.part()
                if self.query.footer:
                    excluded.extend(rows.excluded())

        return with_footer(written(), lambda: excluded) if self.query.footer else written()


class _Rows:
    """The rows of one. To make it costs the number of its turns."""

    def __init__(self, standing: Standing, reading: Reading) -> None:
        self._query, selection = reading.query, reading.query.selection
        sessions = zip(standing.sessions, standing.moments, strict=True)
        told = [SessionAt(session.ledger, moment, session.of_rows) for session, (_, moment) in sessions]
        fresh = reading.versions.fresh(selection.max_staleness, standing.versions)
        self._rollout = Rollout(told, selection, fresh, reading.side_arrays)
        self._sessions = [*enumerate(standing.sessions)]
        self._places = range(len(self._rollout))
        if standing.own is not None:
            position = standing.sessions.index(standing.own)
            self._sessions = [(position, standing.own)]
            self._places = self._rollout.of_session(position)

    def __len__(self) -> int:
        return len(self._places)

    def part(self, start: int = 0, end: int | None = None) -> Iterator[JsonObject]:
        """Some of them, written one by one."""
        return map(self._written, self._places[start:end])

    def _written(self, at: int) -> JsonObject:
        query = self._query
        session_id = next(one.id for position, one in self._sessions if at in self._rollout.of_session(position))
        with named({"session_id": session_id, "row_index": at}):
            return row_object(self._rollout[at], query.arrays, query.routed_experts)

    def excluded(self) -> Iterator[JsonObject]:
        """The turns that none of them trains."""
        for position, session in self._sessions:
            yield from excluded_objects(session.id, self._rollout.excluded(position))
