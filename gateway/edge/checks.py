"""Active checks: whether each engine is there, how much it has to do, and what it is when it was away.

An engine in service is asked for its metrics and its models, which may be other ones by now. One that is down is asked
for its models, and if it answers, each of its ranks must sample a token before it takes turns again. Whatever a turn
finds out goes into the same health, and a turn that failed has its engine asked at once. There is one check of an
engine at a time, in a task of its own, whoever waits for it; each takes a bounded time.

Mutable state: the checks under way and when the next are due; what is found out is written to ranks and engines.
"""

import asyncio
import random
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import partial
from typing import TYPE_CHECKING

import structlog

from gateway.core.health import HealthEvent
from gateway.edge.admission import COUNT_S, by_rank, count_ranks, facts_of, sampled_one
from gateway.edge.engine import Engine
from gateway.edge.log import where
from gateway.edge.rank import Gauges, Rank
from gateway.errors import BadRequest, EngineUnavailable, GatewayError
from gateway.wire.engine_error import loaded
from gateway.wire.engine_facts import RankFacts
from gateway.wire.generate import RANK_HEADER

if TYPE_CHECKING:
    from gateway.edge.backends import Backends

log = structlog.get_logger()

PATIENCE_S = 5.0
"""How long a token may take that proves a rank, and an engine over each question; slow is not dead."""
_ASK_S = 1.0
"""How long an engine may take over what is asked beside that."""
_DOWN_INTERVAL_S = 2.0
"""How often one that is down is asked at least."""
_LOOK_S = 1.0
"""How often at least it is looked for engines that were added."""


class Checks:
    """The checks of the engines of one pool. `prompt` proves ranks; `share` gives random numbers from 0 to 1."""

    def __init__(
        self,
        pool: "Backends",
        prompt: Sequence[int] = (0,),
        interval_s: float = 5.0,
        *,
        share: Callable[[], float] = random.random,
    ) -> None:
        self._pool = pool
        self._prompt = prompt
        self._interval_s = interval_s
        self._share = share
        self._due_s: dict[Engine, float] = {}
        self._under_way: dict[Engine, asyncio.Task[None]] = {}
        self._held = False
        pool.gate.when_changed(self._gate_changed)

    def _gate_changed(self) -> None:
        """Who could not prove itself while turns were held does so now."""
        held, self._held = self._held, self._pool.gate.held == "all"
        if held and not self._held:
            _ = self.begin_absent()

    async def run(self) -> None:
        """Keep checking, until cancelled."""
        while True:
            now_s, engines = time.monotonic(), self._pool.engines
            self._due_s = {engine: self._due_s.get(engine, now_s + self._pause_s(engine)) for engine in engines}
            for engine, due_s in self._due_s.items():
                if due_s <= now_s:
                    self.begin(engine)
                    self._due_s[engine] = now_s + self._pause_s(engine)
            wait_s = min(self._due_s.values(), default=now_s + _LOOK_S) - now_s
            await asyncio.sleep(min(max(wait_s, 0.0), _LOOK_S))

    def _pause_s(self, engine: Engine) -> float:
        """Until the next check: jittered, so that not all gateways ask at once."""
        interval_s = self._interval_s if self._serves(engine) else min(self._interval_s, _DOWN_INTERVAL_S)
        return interval_s * (0.75 + self._share() / 2)

    def _serves(self, engine: Engine) -> bool:
        """Whether nothing is known against it."""
        return engine.is_known and all(rank.answers for rank in self._pool.ranks_of(engine))

    async def ask_absent(self, within_s: float, enough: Callable[[], object] = lambda: False) -> None:
        """Ask every engine that does not serve, or has left something unsaid.

        Wait until each has been asked, or what they said is `enough`; or for so long.
        """
        tasks, until_s = self.begin_absent(), time.monotonic() + within_s
        while tasks and not enough() and (left_s := until_s - time.monotonic()) > 0:
            _, tasks = await asyncio.wait(tasks, timeout=left_s, return_when=asyncio.FIRST_COMPLETED)

    def begin_absent(self) -> "set[asyncio.Task[None]]":
        """Have every engine asked now that does not serve, or has left something unsaid: the checks."""
        asked = [engine for engine in self._pool.engines if engine.untold or not self._serves(engine)]
        return {self._begun(engine) for engine in asked}

    async def have_rank(self, number: int, within_s: float) -> None:
        """Know of an engine that has a data-parallel rank of this number; those that have not told are asked first.

        Raises:
            BadRequest: none has.
            EngineUnavailable: one does not say so in time.
        """

        def is_there() -> bool:
            return any(rank.number == number for rank in self._pool.ranks)

        def unsure() -> list[Engine]:
            return [engine for engine in self._pool.engines if engine.untold or engine.max_model_len is None]

        if not is_there() and unsure():
            await self.ask_absent(within_s, is_there)
        if is_there() or not self._pool.engines:
            return
        if silent := unsure():
            why = f"whether there is a data-parallel rank {number} is not known while {silent[0].url} does not answer"
            raise EngineUnavailable(why)
        raise BadRequest(f"there is no data-parallel rank {number}: name another one, or none", param=RANK_HEADER)

    async def ask(self, engine: Engine) -> None:
        """Check an engine, or wait for the check that is under way; who leaves ends nothing."""
        await asyncio.wait([self._begun(engine)])

    def begin(self, engine: Engine) -> None:
        """Have an engine checked now."""
        _ = self._begun(engine)

    def _begun(self, engine: Engine) -> "asyncio.Task[None]":
        task = self._under_way.get(engine)
        if task is None or task.done():
            task = self._under_way[engine] = asyncio.create_task(self._check(engine))
            task.add_done_callback(partial(self._ended, engine))
        return task

    def _ended(self, engine: Engine, task: "asyncio.Task[None]") -> None:
        if self._under_way.get(engine) is task:
            del self._under_way[engine]

    def answered(self, rank: Rank) -> None:
        """A turn ended well."""
        self._see(rank, "answered")

    def failed(self, rank: Rank) -> None:
        """A turn failed by the engine's fault: that is asked at once."""
        self._see(rank, "failed")
        if rank.engine in self._pool.engines:
            self.begin(rank.engine)
        self._pool.changed()

    async def forget(self, engine: Engine) -> None:
        """An engine was removed: end its check."""
        self._due_s.pop(engine, None)
        if task := self._under_way.pop(engine, None):
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def close(self) -> None:
        """End what is under way."""
        await asyncio.gather(*(self.forget(engine) for engine in [*self._under_way]))

    async def _check(self, engine: Engine) -> None:
        try:
            if engine not in self._pool.engines:
                return
            proves_itself = any(rank.health.state == "probing" for rank in self._pool.ranks_of(engine))
            if not (self._pool.answers(engine) or (proves_itself and engine.is_known)):  # it may be another one then
                await self._admit(engine)
                return
            facts, there = await asyncio.gather(facts_of(engine, PATIENCE_S), engine.is_there(PATIENCE_S))
            if not (facts or there):
                self._note(engine, "unreachable")
                return
            if engine.labels and facts and len(facts) != engine.labels:  # it is another one by now
                await self._admit(engine)
                return
            if engine.untold and await engine.settle(PATIENCE_S):
                await self._count(engine, PATIENCE_S)
            self._keep_facts(engine, facts)
            await self._found(engine)
        except Exception:
            log.exception("a check failed", engine=engine.url, **where())

    async def _admit(self, engine: Engine) -> None:
        """Take an engine into service, at first or again."""
        if not await engine.refresh(PATIENCE_S):
            self._note(engine, "unreachable")
            return
        await self._count(engine, COUNT_S)
        self._pool.admit(engine)
        await self._found(engine)

    async def _count(self, engine: Engine, limit_s: float) -> None:
        """Have as many ranks of an engine as it says that it has, each with what it says of it."""
        prompt = None if self._held else self._prompt
        with self._pool.gate.beside_turns() if prompt else nullcontext():
            facts = await count_ranks(engine, prompt, limit_s)
        self._pool.renumber(engine)
        self._keep_facts(engine, facts)

    async def _found(self, engine: Engine) -> None:
        """It answers; those of its ranks that were down have to prove that they do."""
        self._note(engine, "checked")
        if self._held:  # and nothing is sampled
            return
        await asyncio.gather(
            *(self._prove(rank) for rank in self._pool.ranks_of(engine) if rank.health.state == "probing")
        )

    def _note(self, engine: Engine, event: HealthEvent) -> None:
        for rank in self._pool.ranks_of(engine):
            self._see(rank, event)
        self._pool.changed()

    def _see(self, rank: Rank, event: HealthEvent) -> None:
        before, rank.health = rank.health.state, rank.health.after(event)
        if rank.health.state != before and "suspect" not in (before, rank.health.state):
            log.info("a rank's health changed", rank=rank.name, before=before, now=rank.health.state)

    def _keep_facts(self, engine: Engine, facts: Sequence[RankFacts]) -> None:
        """Keep what each rank of an engine has to do."""
        now_s = time.monotonic()
        for rank, told in zip(self._pool.ranks_of(engine), by_rank(facts, engine.ranks), strict=False):
            if told is not None:
                tokens = told.prompt_tokens, told.generation_tokens
                rank.gauges = Gauges(told.running, told.waiting, told.kv_usage, *tokens, now_s)
                rank.capacity_tokens = told.kv_tokens

    async def _prove(self, rank: Rank) -> None:
        """Have a rank sample a token. One that is paused cannot, and one that works through a queue may be slow."""
        if self._held:  # it was closed since that was decided
            return
        engine, before = rank.engine, rank.gauges
        proven = True
        try:
            async with asyncio.timeout(PATIENCE_S):
                with self._pool.gate.beside_turns():
                    await sampled_one(engine, self._prompt, rank.number)
        except TimeoutError:
            self._keep_facts(engine, await facts_of(engine, _ASK_S))
            works = before and rank.gauges and rank.gauges.generation_tokens > before.generation_tokens
            proven = bool(works) or await is_paused(engine)
            engine.trouble = f"{rank.name} answers, and samples nothing"
        except GatewayError as error:
            proven, engine.trouble = False, error.message
        self._see(rank, "proven" if proven else "unproven")
        self._pool.changed()


async def is_paused(engine: Engine) -> bool:
    """Whether an engine says that it is paused; it says so in vLLM's development mode only."""
    answer = await engine.told("/is_paused", limit_s=_ASK_S)
    told = None if answer is None else loaded(answer)
    return isinstance(told, dict) and told.get("is_paused") is True
