"""The rows of many sessions, as a trainer pulls them: rollout by rollout, in an order that a cursor can hold on to.

Finished rollouts come in the order in which they ended: when the last of their sessions was finished and had no call
under way any more. Others come in the order in which they came to exist. So what ends or begins later stands behind
whatever has been read, and a rollout that is finished again with another reward keeps its place. One that gets another
session later moves to the end, and is read there as a whole.
"""

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import cast, get_args

from aiohttp import web

from gateway.edge.rollouts import Members, Status
from gateway.edge.rows_answer import JSON, RowsAnswers
from gateway.edge.sessions import Sessions
from gateway.edge.standing import PAGE_ROLLOUTS, Reading, Standing
from gateway.errors import BadRequest
from gateway.wire.cursor import Cursor, decode_cursor
from gateway.wire.rows_query import RowsQuery, decode_query, digest_of

_AT_ONCE = 1000
"""Rollouts looked at before others get a turn on the event loop: some milliseconds."""


@dataclass(frozen=True, slots=True)
class _Asked:
    """Which rollouts are asked for, and what of them."""

    status: Status
    group_id: str | None
    reading: Reading

    def wants(self, rollout: Members) -> bool:
        """Whether it is asked for: as a whole, since what its rows say is counted over all of them."""
        return self.group_id is None or any(session.terms.group_id == self.group_id for session in rollout.sessions)


class Pull:
    """The route of rows of many sessions."""

    def __init__(self, sessions: Sessions, reading: Callable[[RowsQuery], Reading], answers: RowsAnswers) -> None:
        self._rollouts = sessions.rollouts
        self._reading = reading
        self._answers = answers

    def routes(self) -> list[web.RouteDef]:
        """One; HEAD would be answered with the rows themselves."""
        return [web.get("/trajectories", self.trajectories, allow_head=False)]

    async def trajectories(self, request: web.Request) -> web.StreamResponse:
        """The rows of the sessions that are asked for."""
        query = decode_query(request.query.items(), ("status", "group_id"))
        media, query = await self._answers.form_of(request, query)
        status, group_id = request.query.get("status", "finished"), request.query.get("group_id")
        if status not in get_args(Status):
            raise BadRequest(f"status must be {' or '.join(get_args(Status))}", param="status")
        asked = _Asked(cast(Status, status), group_id, self._reading(query))
        if media != JSON:
            return await self._answers.all_in_one(request, asked.reading.whole(await self._all(asked)), media)
        digest = digest_of([query.digest, status, group_id])
        cursor = Cursor(0, digest) if query.cursor is None else decode_cursor(query.cursor, digest)
        rest = [*self._begun(asked, cursor), *islice(self._behind(asked, cursor.rollout), PAGE_ROLLOUTS + 1)]
        return await self._answers.written(request, asked.reading.page(rest, cursor))

    def _behind(self, asked: _Asked, place: int) -> Iterator[Standing]:
        """Rollouts behind a place, as they are now."""
        for rollout in self._rollouts.after(asked.status, place):
            if asked.wants(rollout):
                yield asked.reading.now(rollout.place_in(asked.status), rollout.sessions)

    async def _all(self, asked: _Asked) -> list[Standing]:
        """All rollouts, as they are while an answer begins."""
        standings, place = list[Standing](), 0
        last = self._rollouts.last(asked.status)  # what ends meanwhile may have been read before it got another session
        while some := [one for one in islice(self._behind(asked, place), _AT_ONCE) if one.rollout <= last]:
            standings += some
            place = some[-1].rollout
            await asyncio.sleep(0)
        return standings

    def _begun(self, asked: _Asked, cursor: Cursor) -> Iterator[Standing]:
        """The rest of the rollout that the page before began, whatever its status is now.

        One of which a session was freed meanwhile is read again as it now is, here or where it now stands: else what
        is left would be missed.
        """
        if cursor.within is None:
            return
        found = (self._rollouts.of_session(number) for number, _ in cursor.within.moments)
        rollout = next(filter(None, found), None)
        if rollout is None:
            return
        begun = asked.reading.begun(cursor.rollout, rollout.sessions, cursor.within)
        if begun is not None:
            yield begun
        elif rollout.place_in(asked.status) == cursor.rollout and asked.wants(rollout):
            yield asked.reading.now(cursor.rollout, rollout.sessions)
