"""``/admin/engines``: the engines of a running gateway, shown, added, drained and removed."""

import asyncio
from collections.abc import Awaitable, Callable

import structlog
from aiohttp import web

from gateway.edge.backends import Backends
from gateway.edge.body import body_of, json_answer
from gateway.edge.engine import Engine
from gateway.edge.metrics import Metrics
from gateway.edge.probe import Probes
from gateway.edge.rank import Rank
from gateway.edge.running import Running
from gateway.edge.tasks import WaitedTasks
from gateway.errors import BadRequest, UnknownEngine
from gateway.wire import engines as wire
from gateway.wire.engine_facts import dotted

log = structlog.get_logger()

_FAREWELL_S = 5.0
"""How long calls that are interrupted may take to leave a removed engine; then they are broken off."""
_LOOK_S = 0.01


class AdminEngines:
    """The handlers, and what they share. What a caller has begun goes on when it hangs up."""

    def __init__(
        self,
        backends: Backends,
        probes: Probes,
        running: Running,
        metrics: Metrics,
        make_engine: Callable[[str], Engine],
        let_go: Callable[[Engine], Awaitable[None]],
    ) -> None:
        self._backends = backends
        self._probes = probes
        self._running = running
        self._metrics = metrics
        self._make_engine = make_engine
        self._let_go = let_go
        self._tasks = WaitedTasks()

    def routes(self) -> list[web.RouteDef]:
        """Every route."""
        return [
            web.get("/admin/engines", self.listing),
            web.post("/admin/engines", self.change),
            web.delete("/admin/engines", self.remove),
        ]

    async def close(self) -> None:
        """Wait for what is under way."""
        await self._tasks.drain()

    async def listing(self, _request: web.Request) -> web.Response:
        """All engines, and how each of their ranks is."""
        return json_answer(wire.encode_engines([self._state(engine) for engine in self._backends.engines]))

    async def change(self, request: web.Request) -> web.Response:
        """An engine added, or drained, or taken back; as it is then."""
        asked = wire.decode_engine(await body_of(request))
        if asked.draining is None:
            adding = self._tasks.start(self._add(asked.url), may_cancel=lambda: False)
            engine = await adding.wait()
        else:
            engine = self._known(asked.url)
            if asked.rank is None:
                self._backends.drain_engine(engine, draining=asked.draining)
            else:
                self._backends.drain(self._rank(engine, asked.rank), draining=asked.draining)
        return json_answer(wire.encode_engine(self._state(engine)))

    async def remove(self, request: web.Request) -> web.Response:
        """An engine less: new turns go elsewhere at once, and its calls are carried on there."""
        body = await body_of(request)
        given = request.query.get("url", "")
        engine = self._known(wire.decode_url(body) if body else given)
        removing = self._tasks.start(self._remove(engine), may_cancel=lambda: False)
        return json_answer(wire.encode_removed(engine.url, await removing.wait()))

    async def _add(self, url: str) -> Engine:
        """Have an engine, and ask it at once; one that is there stays, with another number of ranks if one is given."""
        engine = self._make_engine(url)
        if (known := self._backends.engine(engine.url)) is not None:
            if engine.declared_ranks != known.declared_ranks:  # none: it is found out again
                known.declared_ranks = engine.declared_ranks
                known.doubt()  # so that it is asked what that comes to
                await self._backends.checks.ask(known)
                if known.doubted:  # what it was being asked was not that
                    await self._backends.checks.ask(known)
            return known
        self._backends.add(engine)
        log.info("an engine was added", engine=engine.url)
        await self._backends.checks.ask(engine)
        return engine

    async def _remove(self, engine: Engine) -> int:
        if engine not in self._backends.engines:
            return 0  # another call has done it
        self._backends.remove(engine)
        self._probes.forget(engine)
        interrupted = self._running.interrupt("removed", of=lambda call: call.rank.engine is engine)
        log.info("an engine was removed", engine=engine.url, interrupted=interrupted)
        await self._backends.checks.forget(engine)
        for _ in range(int(_FAREWELL_S / _LOOK_S)):
            if not any(call.rank.engine is engine for call in self._running):
                break
            await asyncio.sleep(_LOOK_S)
        await self._let_go(engine)
        await engine.close()
        if self._backends.engine(engine.url) is None:  # else its URL is another's by now
            self._metrics.forget_engine(engine.url)
        return interrupted

    def _known(self, url: str) -> Engine:
        if not url:
            raise BadRequest("which engine? Name it with ?url=, or in a body", param="url")
        engine = self._backends.engine(url.partition("#")[0].rstrip("/"))
        if engine is None:
            raise UnknownEngine(f"no engine here has the URL {url:.200}: GET /admin/engines lists them", param="url")
        return engine

    def _rank(self, engine: Engine, number: int) -> Rank:
        ranks = self._backends.ranks_of(engine)
        if number >= len(ranks):
            raise UnknownEngine(f"{engine.url} has no rank {number}: it has {len(ranks)}", param="rank")
        return ranks[number]

    def _state(self, engine: Engine) -> wire.EngineState:
        answers = self._backends.answers(engine)
        return wire.EngineState(
            engine.url,
            answers=answers,
            trouble=None if answers else engine.trouble,
            version=engine.version and dotted(engine.version),
            models=sorted(engine.models),
            window=engine.max_model_len,
            logprobs=engine.logprobs.mode,
            ranks=[self._rank_state(rank) for rank in self._backends.ranks_of(engine)],
        )

    def _rank_state(self, rank: Rank) -> wire.RankState:
        counts, gauges = self._backends.counts(rank), rank.gauges
        return wire.RankState(
            rank=rank.number,
            health=rank.health.state,
            failures=rank.health.failures,
            draining=rank.draining,
            in_flight=counts.in_flight,
            waiting=counts.waiting,
            sessions=counts.sessions,
            resident_tokens=counts.resident_tokens,
            capacity_tokens=rank.capacity_tokens,
            running=gauges.running if gauges else None,
            queued=gauges.waiting if gauges else None,
            kv_usage=gauges.kv_usage if gauges else None,
        )
