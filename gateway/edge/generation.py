"""One answer, over as many calls of engines as it takes.

    lease → ask → read → finished, or cut: complete as it is, gone on with, made anew, or failed

Its client sees one answer: what reads it goes on where the call before had ended.
"""

import asyncio
import secrets
from collections.abc import AsyncGenerator
from contextlib import aclosing

import structlog

from gateway.core.pool import Demand
from gateway.core.resume import FAILURES, Attempts, is_free, is_resumable, next_step
from gateway.core.types import FinishReason
from gateway.edge.asking import body_of, collector_of, completes_stop, reading_of, settled_on
from gateway.edge.broken_call import BrokenCall, broken_call_of, is_misplaced
from gateway.edge.choice import Choice, Plan, decoded
from gateway.edge.deps import Deps
from gateway.edge.lease import Lease
from gateway.edge.pace import Pace
from gateway.edge.running import EngineCall
from gateway.edge.sampling_plan import SamplingPlan
from gateway.edge.session import Session, TurnCall
from gateway.edge.side_arrays import note_missing
from gateway.edge.stall import Silence, next_event
from gateway.errors import (
    BadRequest,
    ContextLengthExceeded,
    EngineError,
    EngineProtocolError,
    EngineUnavailable,
    LogprobsUntold,
)
from gateway.wire.collector import Collector
from gateway.wire.pieces import pieces

log = structlog.get_logger()


class Generation:
    """The sampling of one choice. Mutable: it writes the choice, and counts calls and attempts.

    Raises, in `run`:
        GatewayError: what an engine or the pool says, when there is nothing more to be tried.
    """

    def __init__(self, choice: Choice, call: TurnCall, plan: Plan, session: Session, deps: Deps) -> None:
        self.choice, self.call, self.plan, self.session, self.deps = choice, call, plan, session, deps
        constrained = plan.structured_outputs is not None
        self._resumable = is_resumable(choice.request.sampling, constrained=constrained)
        self._attempts = Attempts(deps.resuming.attempts, deps.backends.places.bounds.resume_timeout_s)
        self._placings = self._attempts if deps.resuming.attempts else Attempts(1, 1.0)
        self._pace = Pace(deps.metrics, call.arrived_s)
        self._was_cut = False
        self._calls = 0

    async def run(self) -> None:
        """Sample to the end, and say meanwhile what is to be streamed."""
        try:
            while self.choice.whole is None:
                try:
                    broken = await self._take_call()
                except LogprobsUntold as error:
                    await self._outwait(error)
                    continue
                if broken is not None:
                    await self._carry_on(broken)
            note_missing(self.deps.side_arrays, self.choice.whole, self.deps.metrics)
        except Exception as error:
            self.choice.failed = True
            if self._was_cut:
                self.deps.metrics.resumes.inc("gave_up")
            if isinstance(error, EngineProtocolError):
                # An engine whose evidence fails once is not believed for the rest of its call either.
                self.choice.collector.retract()
                self.choice.keep(None)
            raise

    @property
    def _is_first(self) -> bool:
        """Whether its session has sampled nothing yet."""
        return not self.session.ledger.turns and not self._was_cut

    def _may_place_anew(self) -> bool:
        """Whether a call that was refused for its rank goes to another; it costs an attempt."""
        may = self.call.rank_number is None and self._placings.may(free=False)
        self._placings.back_off_s(free=not may)
        return may

    @property
    def _position(self) -> int:
        return len(self.choice.evidence.ids)

    async def _take_call(self) -> BrokenCall | None:
        """One call; ``None`` when it came to its end, or could not begin since turns are held."""
        choice, resumes = self.choice, self._was_cut
        room_tokens = choice.request.sampling.max_tokens or self.plan.room_tokens
        demand = Demand(
            len(self.plan.prompt.ids) + self._position,
            remaining_tokens=max(0, room_tokens - self._position),
            model=choice.request.model,
            rank_number=self.call.rank_number,
            new_session=self._is_first,
            resumes=resumes,
            awaits_engine=self.deps.resuming.attempts > 0,
            waited_s=self._attempts.waited_s,
        )
        async with self.deps.backends.lease(self.session.affinity, demand) as lease:
            self._attempts.waited_s = lease.waited_s if resumes else 0.0
            settled = choice.settled = settled_on(lease.rank, choice, self.plan, self.session, self.call)
            if self._position >= settled.limit.tokens:  # a narrower window than the one before
                choice.whole = choice.sampled(FinishReason.LENGTH, settled.limit)
                return None
            return await self._go_on(lease, settled)

    async def _go_on(self, lease: Lease, settled: SamplingPlan) -> BrokenCall | None:
        """One call. What another engine has not refused is not the caller's fault, if this one does."""
        choice = self.choice
        try:
            settled = choice.settled = await self._proven(settled)
            if self.deps.backends.gate.holds(new_session=self._is_first):  # it was closed meanwhile
                return None
            return await self._ask(lease, settled)
        except LogprobsUntold:
            raise
        except (EngineError, BadRequest, ContextLengthExceeded) as error:
            if is_misplaced(lease.rank, error):
                lease.rank.engine.doubt()
                if self._may_place_anew():
                    return None
            if not self._was_cut or (self.call.feed is not None and choice.collector.count):
                raise  # its client has been told what turns out to be untrue
            choice.collector.retract()
            choice.keep(None)
            lease.affinity.shuns = lease.rank.name
            self.deps.metrics.cuts.inc("engine_error")
            return BrokenCall("engine_error", error)

    async def _outwait(self, error: LogprobsUntold) -> None:
        """Give an engine time until it may be asked again. Nothing was tried, so it costs no attempt."""
        if not (self._was_cut and self._attempts.may(free=True)):
            raise error
        pause_s = self._attempts.back_off_s(free=True, least_s=error.rest_s)
        await asyncio.sleep(pause_s)
        self._attempts.waited_s += pause_s

    async def _proven(self, settled: SamplingPlan) -> SamplingPlan:
        """As `SamplingPlan.proven`, but where all turns are held: then no engine is asked, and none is at fault."""
        began_s = self.deps.resuming.clock()
        try:
            return await settled.proven(self.deps.probes)
        except EngineUnavailable:
            if self.deps.backends.gate.held != "all":
                self._attempts.waited_s += self.deps.resuming.clock() - began_s
                raise
            return settled

    async def _ask(self, lease: Lease, settled: SamplingPlan) -> BrokenCall | None:
        choice, deps, rank = self.choice, self.deps, lease.rank
        choice.marks.begin(self._position, rank.engine.url)
        choice.collector = collector_of(choice, self.plan)
        salted = deps.salted(choice.request, self.session)
        body = body_of(salted, choice, self.plan, settled, deps.stream_interval_tokens)
        self._calls += 1
        hurried = self.call.feed.look_again if self.call.feed is not None else lambda: None
        engine_call = EngineCall(rank, lambda: self._position, choice.marks, when_hurried=hurried)
        request_id = choice.request_id + (f"-r{self._calls - 1}" if self._calls > 1 else "")
        events = rank.engine.generate(body, request_id=request_id, rank=rank.number, session_id=self.session.id)
        error: EngineError | None = None
        try:
            with self._pace, deps.running.under_way(engine_call), deps.resuming.stalls.watched(engine_call) as silence:
                async with aclosing(events):
                    await self._read(events, lease, silence)
        except EngineError as failure:
            if not failure.retryable:
                raise
            error = failure
        return await self._ended(lease, engine_call, error)

    async def _read(self, events: AsyncGenerator[bytes], lease: Lease, silence: Silence) -> None:
        choice, heard = self.choice, False
        while (payload := await next_event(events, silence)) is not None:
            if not heard:  # now the engine is known to be the one that was asked, or to have been lost
                assert choice.settled is not None
                choice.settled = await self._proven(choice.settled)
                heard = self.deps.backends.gate.held != "all"  # or it is judged when it can be
            if not (ids := choice.collector.feed(payload)):
                continue
            self._pace.heard(len(ids))
            lease.heard()
            silence.begun = True
            if self.call.feed is not None:
                self.call.feed.begin()
                told = [*pieces(choice.index, choice.reading.feed(ids), choice.reading.shown)]
                choice.told |= bool(told)
                await self.call.feed.add(told, waits=lambda: not silence.call.is_hurried)
            if choice.stops is not None:
                choice.stops.feed(ids)
                if choice.stops.stop:
                    return

    async def _ended(self, lease: Lease, engine_call: EngineCall, error: EngineError | None) -> BrokenCall | None:
        """Keep what a call has brought, and tell the pool how it went."""
        choice, collector = self.choice, self.choice.collector
        by_stop = choice.stops is not None and choice.stops.stop is not None
        finished = collector.finish_reason not in (None, FinishReason.ABORT)
        is_believed = error is None or self.deps.resuming.attempts > 0  # what came behind a finish does not undo it
        if by_stop or (finished and is_believed):
            completion = await decoded(collector.partial if by_stop else collector.completion, [choice])
            assert completion is not None  # the stop, or the end, came with ids
            choice.keep(completion)
            choice.whole = choice.sampled(FinishReason.STOP if by_stop else completion.finish_reason)
            lease.ended(len(self.plan.prompt.ids) + self._position)
            return None
        broken = broken_call_of(collector, engine_call, error)
        self._note(lease, broken)
        self.deps.metrics.cuts.inc(broken.reason)
        if not self.deps.resuming.attempts:
            raise broken.error
        choice.keep(await decoded(collector.partial, [choice]), broken.reason)
        return broken

    def _note(self, lease: Lease, broken: BrokenCall) -> None:
        """Tell the pool how a cut call went: after a failure others are asked first."""
        if broken.news:
            lease.failed()
        elif broken.reason in FAILURES:
            lease.affinity.shuns = lease.rank.name
        elif broken.sampled:
            lease.cached(len(self.plan.prompt.ids) + self._position)

    async def _carry_on(self, broken: BrokenCall) -> None:
        """Do with a cut answer what can be done."""
        choice, metrics = self.choice, self.deps.metrics
        self._was_cut = True
        restarts = len(choice.discarded)
        free = is_free(broken.reason, broken.sampled, resumable=self._resumable, restarts=restarts)
        found = next_step(
            choice.evidence.ids,
            choice.request.sampling,
            max_tokens=choice.settled.limit.tokens if choice.settled else 1,
            stop_ids=choice.settled.sampling.stop_token_ids if choice.settled else (),
            completes_stop=bool(choice.request.sampling.stop)
            and await self.deps.rendering(lambda: completes_stop(choice, self.plan)),
            resumable=self._resumable,
            told=choice.told,
            may_try=self._attempts.may(free=free),
        )
        self._tell(broken, found)
        match found:
            case "finished" | "length":
                metrics.resumes.inc("finished")
                choice.whole = choice.sampled(FinishReason.STOP if found == "finished" else FinishReason.LENGTH)
                return
            case "give_up":
                raise broken.error
            case "restart":
                metrics.resumes.inc("restarted")
                await self._discard()
            case "resume":
                metrics.resumes.inc("resumed")
                metrics.resumed_tokens.inc(by=self._position)
        await self._wait(broken, free=free)

    def _tell(self, broken: BrokenCall, found: str) -> None:
        settled = self.choice.settled
        log.warning(
            "cut",
            session_id=self.session.id,
            request_id=self.call.request_id,
            reason=broken.reason,
            position=self._position,
            engine=settled and settled.rank.engine.url,
            rank=settled and settled.rank.number,
            fate=found,
        )

    async def _discard(self) -> None:
        """Begin anew; what was sampled stays as a turn that failed."""
        choice = self.choice
        discarded = choice.partial()
        reading = await self.deps.rendering(lambda: reading_of(choice.request, self.plan))
        if discarded is not None:
            choice.discarded.append((f"turn_{secrets.token_hex(12)}", discarded))
            self.call.discarded_tokens += len(discarded.completion.ids)
        choice.parts, choice.stops, choice.reading = [], None, reading
        choice.collector = Collector(choice.request.top_logprobs)
        if self.call.feed is not None:
            self.call.feed.evidence[choice.index] = choice.evidence

    async def _wait(self, broken: BrokenCall, *, free: bool) -> None:
        """Give engines time that have failed, and let not all answers come at once."""
        resuming = self.deps.resuming
        least_s = resuming.budget.take(resuming.clock()) if broken.reason in FAILURES else 0.0
        pause_s = self._attempts.back_off_s(free=free, least_s=least_s)
        await asyncio.sleep(pause_s)
        self._attempts.waited_s += pause_s
