"""The sessions of this gateway."""

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import count, islice
from typing import Literal

from gateway.core.canon import Policy, root_of
from gateway.core.ledger import Known
from gateway.core.pool import Affinity
from gateway.core.prefixes import Prefixes, places
from gateway.core.salt import Starts
from gateway.core.terms import Terms
from gateway.core.turn import Turn
from gateway.core.types import Messages, TurnRequest
from gateway.edge.census import Census
from gateway.edge.rollouts import MAX_SESSIONS, Rollouts
from gateway.edge.session import Held, Session, TurnCall
from gateway.edge.store import Store
from gateway.errors import BadRequest, GatewayDraining, SessionClosed, SessionExists, UnknownSession
from gateway.wire.sessions import Finish, Freed, Page, SessionState

Admitted = Literal["all", "existing", "none"]
"""Whose turns are taken: everybody's, those of sessions that exist, or nobody's."""


class Sessions:
    """Sessions by id.

    One exists from when it is made, or from its first turn; one that is neither made nor got a turn is forgotten
    with its last call. What its terms leave open is as `defaults` have it. A deleted id is refused for
    `tombstone_ttl_s`, whatever still runs or comes late. `over` is told of each that takes no more turns: where its
    prefix was cached. `clock` gives seconds.
    """

    def __init__(
        self,
        *,
        policy: Policy = "canonical",
        defaults: Terms | None = None,
        tombstone_ttl_s: float = 86_400.0,
        over: Callable[[Affinity], None] = lambda _affinity: None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._policy = policy
        self._defaults = defaults or Terms(sampling_rule="agent", client_seed="drop")
        self._tombstone_ttl_s = tombstone_ttl_s
        self._over = over
        self._clock = clock
        self._sessions: dict[str, Session] = {}
        # Those that exist stand in the order of their numbers.
        self._numbers = count(1)
        self.rollouts = Rollouts()
        self._tombstones: dict[str, float] = {}
        # When an id was deleted; the oldest first.
        self._prefixes = Prefixes()
        self._starts = Starts()
        self.census = Census()
        self._admitted: Admitted = "all"

    def __len__(self) -> int:
        """How many are held, those in their first call included."""
        return len(self._sessions)

    @property
    def takes_new(self) -> bool:
        """Whether new ones are taken."""
        return self._admitted == "all"

    def admit(self, admitted: Admitted) -> None:
        """From now on take turns only of those."""
        self._admitted = admitted

    def create(self, session_id: str, terms: Terms) -> Session:
        """Make a session that exists without turns.

        Raises:
            GatewayDraining: no new ones are taken.
            SessionExists: there is one of that id.
            SessionClosed: there was one, and it was deleted.
            BadRequest: its rollout has as many sessions as it may.
        """
        self._refuse_deleted(session_id)
        self._refuse_late(new=True)
        if len(self.rollouts.sessions(terms.rollout_id or session_id)) >= MAX_SESSIONS:
            raise BadRequest(f"a rollout has at most {MAX_SESSIONS} sessions: begin another", param="rollout_id")
        if session_id in self._sessions:
            raise SessionExists(f"there is a session {session_id!r} already: choose another id", param="session_id")
        session = self._sessions[session_id] = self._made(session_id, terms)
        session.start = self._starts.enter(terms.group_id)
        session.kept = True
        self._number(session)
        return session

    def finish(self, session: Session, finish: Finish) -> None:
        """Finish a session, be it in its first call; see `Session.finish`."""
        session.finish(finish)
        self._number(session)
        self._over(session.affinity)

    @contextmanager
    def entered(self, call: TurnCall) -> Iterator[Session]:
        """The session for the time of one call, made if need be; for the task that takes the call's turns.

        Raises:
            GatewayDraining: no new ones are taken, or no turns at all.
            SessionClosed: it was finished, or was deleted before the call or during it.
            TooManyRequests: its budget does not suffice.
        """
        session = self._admitting(call)
        task = asyncio.current_task()
        assert task is not None
        held = Held(call, task)
        session.held.append(held)
        try:
            yield session
        except asyncio.CancelledError:
            if held.evicted and not task.uncancel():
                raise SessionClosed(f"session {session.id!r} was deleted during this call") from None
            raise
        finally:
            session.held.remove(held)
            self._number(session)
            self.census.count(session)
            if not (session.held or session.exists or session.deleted):
                self._sessions.pop(session.id, None)
                self.census.leave(session)
                self._over(session.affinity)

    def _admitting(self, call: TurnCall) -> Session:
        self._refuse_deleted(call.session_id)
        session = self._sessions.get(call.session_id)
        self._refuse_late(new=session is None)
        if session is None:
            session = self._made(call.session_id, Terms())
            session.anonymous = call.anonymous
        if session.finished:
            raise SessionClosed(f"session {session.id!r} is finished: it takes no more turns")
        session.terms.budget.admit(session.spent(), in_flight=session.turns_to_come, n=call.request.n)
        self._sessions[session.id] = session
        return session

    def _made(self, session_id: str, terms: Terms) -> Session:
        return Session(session_id, terms.over(self._defaults), policy=self._policy, created_s=self._clock())

    def _refuse_late(self, *, new: bool) -> None:
        if self._admitted == "none" or (new and self._admitted == "existing"):
            what = "new sessions" if self._admitted == "existing" else "turns"
            raise GatewayDraining(f"the gateway takes no {what} any more, since it is about to end: try another")

    def _number(self, session: Session) -> None:
        """Give a session its places in listings, once it exists, and once it has ended.

        So whoever has read so far finds it at the end.
        """
        if session.exists and not session.number:
            session.number = next(self._numbers)
            self._sessions[session.id] = self._sessions.pop(session.id)
            self.rollouts.join(session)
        if session.exists and session.ended:
            self.rollouts.end(session)

    def note(self, session: Session, prompt: Messages, turns: Sequence[Turn]) -> None:
        """From now on a client that names no session is led to this one by the answers of `turns`, if it is anonymous.

        `turns` are those of one call, with `prompt`.
        """
        if session.anonymous and not session.deleted:
            self._prefixes.enter(session.id, prompt, [turn.message for turn in turns], turns[0].root)

    def found(self, request: TurnRequest) -> str | None:
        """The anonymous session that knows most of a history: at least one answer of ours in it.

        Among those that know equally many, the one to which more tool-call ids came back wins; then one that has seen
        what stands above the messages, tools and system prompt, though that may have changed; then the latest. A
        sub-agent or a compaction that starts afresh shows no answer of ours, and so gets a session of its own.
        """
        asked = places(request.messages)
        if not asked:
            return None
        root = root_of(request)
        best, found = Known(), None
        for named in (self._prefixes.exact(asked, root), self._prefixes.likely(asked)):
            beaten = best.messages  # whoever gave this very answer is not to be found again among the likely
            for session_id, length in named:
                if length <= beaten or length < best.messages:
                    break  # neither this one nor those that follow can know more
                known = self._sessions[session_id].ledger.known_turns(request.messages, root)
                if known > best:
                    best, found = known, session_id
        return found

    def get(self, session_id: str, *, even_in_first_call: bool = False) -> Session:
        """A session that exists, or one that does not yet.

        Raises:
            UnknownSession: there is none of that id, or none any more.
        """
        session = self._sessions.get(session_id)
        if self._is_deleted(session_id):
            raise UnknownSession(f"session {session_id!r} was deleted")
        if session is None or not (session.exists or even_in_first_call):
            raise UnknownSession(f"no session {session_id!r}: nothing was recorded for it, and nobody made it")
        return session

    def listing(self, page: Page) -> tuple[list[SessionState], int | None]:
        """One page of the sessions that exist, in the order in which they came to exist, and where the next begins.

        What is deleted meanwhile moves nothing, and what is new comes at the end.
        """
        listed = (
            session
            for session in self._sessions.values()
            if session.exists and session.number > page.after and page.group_id in (None, session.terms.group_id)
        )
        sessions = list(islice(listed, page.most + 1))
        shown = sessions[: page.most]
        return [session.state() for session in shown], shown[-1].number if len(sessions) > len(shown) else None

    async def ack(
        self, session_ids: Iterable[str], store: Store, forget: Callable[[str], None] = lambda _id: None
    ) -> Freed:
        """Delete those that have ended: finished, and without a call under way. May be repeated, as `delete` may."""
        freed, unknown, still_open = list[str](), list[str](), list[str]()
        for session_id in dict.fromkeys(session_ids):
            session = self._sessions.get(session_id)
            if self._is_deleted(session_id) or (session is not None and session.ended):
                await self.delete(session_id, store, forget)
                freed.append(session_id)
            else:
                (unknown if session is None else still_open).append(session_id)
        return Freed(freed, unknown, still_open)

    async def delete(self, session_id: str, store: Store, forget: Callable[[str], None] = lambda _id: None) -> None:
        """Delete a session for good. Its calls are cancelled, save those that are being recorded; they are waited for.

        `forget` is called at once, so that nothing of it is replayed, and when its calls have ended. May be repeated:
        what is deleted stays so, a deletion under way is waited for, and one that failed in the store is tried again.

        Raises:
            UnknownSession: there is none of that id, nor was.
        """
        session = self._sessions.get(session_id)
        if session is None and self._is_deleted(session_id):
            return
        session = session or self.get(session_id)
        session.deleted = True
        self.rollouts.leave(session)
        self._prefixes.leave(session_id)
        forget(session_id)
        for held in session.held:
            if not (held.call.sealed or held.evicted):
                held.evicted = held.task.cancel()
        if session.held:
            await asyncio.wait({held.task for held in session.held})
        async with session.deletion:
            if self._sessions.get(session_id) is not session:
                return  # another has done it, and the id may be somebody else's by now
            forget(session_id)
            self._over(session.affinity)
            await store.delete(session_id)
            del self._sessions[session_id]
            self.census.leave(session)
            self._starts.leave(session.terms.group_id)
            self._tombstones[session_id] = self._clock()

    def _is_deleted(self, session_id: str) -> bool:
        now_s = self._clock()
        while self._tombstones and next(iter(self._tombstones.values())) + self._tombstone_ttl_s <= now_s:
            del self._tombstones[next(iter(self._tombstones))]
        session = self._sessions.get(session_id)
        return session_id in self._tombstones or (session is not None and session.deleted)

    def _refuse_deleted(self, session_id: str) -> None:
        if self._is_deleted(session_id):
            raise SessionClosed(f"session {session_id!r} was deleted: take another id", param="session_id")
