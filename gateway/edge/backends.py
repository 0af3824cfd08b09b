"""The engines of this gateway, and who may use them now."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial

import structlog

from gateway.core.pool import Affinity, Bounds, Demand
from gateway.edge.checks import PATIENCE_S, Checks
from gateway.edge.engine import Engine
from gateway.edge.gate import Gate
from gateway.edge.lease import Lease
from gateway.edge.metrics import Metrics, RankView
from gateway.edge.place import Place
from gateway.edge.places import Places
from gateway.edge.queues import Queues
from gateway.edge.rank import Drained, Rank, RankCounts
from gateway.edge.relay import asked_together
from gateway.edge.ticket import Ticket
from gateway.errors import NoRank

log = structlog.get_logger()

_START_S = 1.2
"""How long a start may be held up by engines that do not answer."""
_ANSWERING_S = 2 * PATIENCE_S
"""How long a call waits for some engine to answer, and to prove that it samples."""


class Backends:
    """The engines and their ranks, who has turns there, and who waits for one.

    Mutable: engines come and go, and ranks are drained.
    """

    def __init__(
        self,
        engines: Iterable[Engine],
        metrics: Metrics,
        gate: Gate | None = None,
        *,
        bounds: Bounds | None = None,
        prompt: Sequence[int] = (0,),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.gate = gate or Gate()
        self.checks = Checks(self, prompt, (bounds or Bounds()).health_interval_s)
        self.places = Places(bounds or Bounds(), metrics, clock)
        self._queues = Queues(self.places, self.gate, clock)
        self._metrics = metrics
        self._engines: dict[str, Engine] = {}
        self._drained: dict[Engine, Drained] = {}
        self.when_admitted: Callable[[Engine], None] = lambda _engine: None
        """Told of each engine that answers, at first or again, also where that was found out by a turn."""
        self._bereft = False
        # Whether it was said that no engine answers.
        for engine in engines:
            self.add(engine)

    @property
    def waiting(self) -> int:
        """How many calls wait for a rank."""
        return self._queues.waiting

    @property
    def engines(self) -> list[Engine]:
        """All of them, those that do not answer too."""
        return list(self._engines.values())

    @property
    def ranks(self) -> list[Rank]:
        """The ranks of all engines."""
        return [place.rank for place in self.places.all()]

    def engine(self, url: str) -> Engine | None:
        """The one of that URL."""
        return self._engines.get(url)

    def ranks_of(self, engine: Engine) -> list[Rank]:
        """Those of one engine, by their numbers; none where it is not ours any more."""
        return [place.rank for place in self._places_of(engine)]

    def answers(self, engine: Engine) -> bool:
        """Whether an engine has answered, and some rank of it could take turns."""
        return engine.is_known and any(rank.answers for rank in self.ranks_of(engine))

    def _places_of(self, engine: Engine) -> list[Place]:
        return [place for place in self.places.all() if place.rank.engine is engine]

    def add(self, engine: Engine) -> None:
        """Have an engine, whether or not it answers yet; where there is one of its URL, that stays."""
        if engine.url in self._engines:
            return
        self._engines[engine.url], self._drained[engine] = engine, Drained()
        engine.when_reconnected = partial(self.admit, engine, emptied=False)
        engine.quiet.beside = self.gate.beside_turns
        self.renumber(engine)

    def renumber(self, engine: Engine) -> None:
        """Have as many ranks of an engine as it has by now."""
        places = self._places_of(engine)
        for place in places[engine.ranks :]:
            self._remove(place)
        for number in range(len(places), engine.ranks):
            self._add(Place(Rank(engine, number, draining=self._drained[engine].has(number))))
        self.changed()

    def _add(self, place: Place) -> None:
        self.places.add(place)
        self._metrics.show_rank(place.rank.engine.url, place.rank.number, lambda: self._view(place))

    def _view(self, place: Place) -> RankView:
        rank, resident_tokens = place.rank, self.places.resident_tokens(place)
        load = place.in_flight, place.waiting, resident_tokens, rank.capacity_tokens
        return RankView(rank.serves, rank.health.state, *load)

    def remove(self, engine: Engine) -> None:
        """Have an engine no more. Who waits for it goes elsewhere; calls under way are not ended, nor is it closed."""
        del self._engines[engine.url]
        del self._drained[engine]
        engine.when_reconnected = lambda: None
        for place in self._places_of(engine):
            self._remove(place)
        self.changed()

    def _remove(self, place: Place) -> None:
        self.places.remove(place)
        self._metrics.forget_rank(place.rank.engine.url, place.rank.number)

    def drain(self, rank: Rank, draining: bool) -> None:
        """Give a rank no turns beyond those that it has, or give it turns again; one of its number also if it went."""
        rank.draining = self._drained[rank.engine].ranks[rank.number] = draining
        self.changed()

    def drain_engine(self, engine: Engine, draining: bool) -> None:
        """The same of all ranks of an engine, those too that it will have."""
        self._drained[engine] = Drained(draining)
        for rank in self.ranks_of(engine):
            rank.draining = draining
        self.changed()

    def changed(self) -> None:
        """To be called when a rank's health or an engine's window or models are other ones: who waits is told."""
        if self._bereft and self.known():
            self._bereft = False
            log.info("engines answer again")
        self._queues.pump()

    def counts(self, rank: Rank) -> RankCounts:
        """How much there is to do on a rank."""
        place = self.places[rank.name]
        tokens = self.places.resident_tokens(place)
        return RankCounts(place.in_flight, place.waiting, tokens, self.places.residency.sessions(place.name))

    def forget(self, affinity: Affinity) -> None:
        """A session is over: what it has cached makes room for others."""
        self.places.residency.forget(affinity)
        self.changed()

    def heard(self, ticket: Ticket) -> None:
        """A call's prompt is prefilled, which makes room for others; `Lease.heard` says so."""
        self.places.heard(ticket)
        self.changed()

    async def close(self) -> None:
        """Close every engine's pool."""
        await self.checks.close()
        self._queues.close()
        await asyncio.gather(*(engine.close() for engine in self.engines))

    async def refresh(self) -> None:
        """Ask every engine that does not serve; one that is slow to answer is waited for no longer."""
        await self.checks.ask_absent(_START_S)

    def admit(self, engine: Engine, *, emptied: bool = True) -> None:
        """An engine answers, at first or again: it may be another one, with nothing in its caches."""
        self.when_admitted(engine)
        places = self._places_of(engine)
        self.places.lose(places)
        for place in places if emptied else ():
            self.places.residency.lose(place.name)
        self.changed()

    def known(self) -> dict[str, int]:
        """The ranks of the engines that answer, and the context that each offers, in tokens.

        One that cannot prove itself while turns are held is among them: so are they who would go there.
        """
        held = self.gate.held == "all"
        ranks = [rank for rank in self.ranks if rank.answers or (held and rank.health.state == "probing")]
        windows = ((rank.name, rank.engine.max_model_len) for rank in ranks)
        return {name: window for name, window in windows if window is not None}

    @property
    def serves(self) -> bool:
        """Whether any rank takes new turns."""
        return any(rank.serves for rank in self.ranks)

    @property
    def trouble(self) -> str:
        """Why no rank takes new turns; empty where one does."""
        if self.serves:
            return ""
        if any(rank.answers for rank in self.ranks):
            return "all engines that answer are drained"
        return "engines that were away prove themselves when turns go on" if self.known() else "no engine answers"

    async def window(self, model: str | None, *, awaits_engine: bool = False) -> int:
        """The longest context that a call to a model may have, in tokens, though the engine that has it is away.

        Raises:
            EngineUnavailable: no engine answers, and it does not wait for one that did.
        """
        if not (awaits_engine and self.places.window(model)):
            await self.answering()
        return self.places.window(model)

    async def answering(self) -> dict[str, int]:
        """As `known`, asking again while none answers.

        Raises:
            EngineUnavailable: still none does.
        """
        if not self.known():
            await self.checks.ask_absent(_ANSWERING_S, self.known)
        if known := self.known():
            return known
        reasons = "; ".join(engine.trouble for engine in self.engines) or "there is none, see --engine"
        if not self._bereft:
            self._bereft = True
            log.warning("no engine answers", reasons=reasons)
        raise NoRank(f"no engine answers: {reasons}")

    @asynccontextmanager
    async def lease(self, affinity: Affinity, demand: Demand) -> AsyncIterator["Lease"]:
        """Hold a rank for one call, as `pick` chooses; wait for it while it is full or the gate holds.

        Raises:
            BadRequest: no rank has the number that the caller insists on.
            EngineUnavailable: no engine answers that suits, or so many wait, or for so long, that this one may not.
        """
        await self._check_number(demand)
        ticket = self._queues.ticket(affinity, demand)
        try:
            lease = await self._leased(ticket)
            while not await self._is_sound(lease.rank):
                await self._check_number(demand)
                self._queues.leave(ticket)
                ticket = self._queues.ticket(affinity, replace(demand, waited_s=ticket.waited_s), ticket.number)
                lease = await self._leased(ticket)
            self.places.settled(ticket)
            yield lease
        finally:
            self._queues.leave(ticket)

    async def _is_sound(self, rank: Rank) -> bool:
        """Whether a rank takes turns; where a call to its engine broke off, that is asked first whether it is there.

        It may not be: the engine may have fewer ranks by then.
        """
        if rank.engine.doubted:
            await self.checks.ask(rank.engine)
        return rank.serves and rank.engine.is_known and self.places.have(rank)

    async def _check_number(self, demand: Demand) -> None:
        if demand.rank_number is not None and not demand.resumes:
            await self.checks.have_rank(demand.rank_number, _ANSWERING_S)

    async def _leased(self, ticket: Ticket) -> Lease:
        self._queues.enter(ticket)
        if ticket.demand.awaits_engine and not ticket.outcome.done() and not self._queues.suits_any(ticket.demand):
            self.checks.begin_absent()
        while not await ticket.outcome:
            await self.answering()
            if not (self._queues.suits_any(ticket.demand) or self._queues.may_wait(ticket.demand)):
                raise NoRank("no engine takes turns: those that would suit are drained or down")
            self._queues.enter(ticket)
        assert ticket.place is not None
        return Lease(ticket.place.rank, ticket.affinity, ticket, self)

    async def relay(self, path: str) -> list[tuple[int, bytes]]:
        """What each answering engine says to a GET; those left out that break off, or take seconds longer than others.

        Raises:
            GatewayError: none does answer.
        """
        await self.answering()
        known = self.known()
        return await asked_together(list(dict.fromkeys(r.engine for r in self.ranks if r.name in known)), path)
