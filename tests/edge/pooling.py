"""Engines whose answers are known, and calls that hold their ranks for as long as a test wants."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress

import orjson

from gateway.core.pool import Affinity, Bounds, Demand
from gateway.edge.backends import Backends
from gateway.edge.deps import Deps, Resuming
from gateway.edge.engine import Engine
from gateway.edge.lease import Lease
from gateway.edge.metrics import Metrics
from gateway.edge.probe import Probes
from gateway.edge.store import Store
from gateway.errors import GatewayError
from gateway.render.registry import Renderers


class Known(Engine):
    """An engine whose answers are known: it is up or not."""

    def __init__(self, url: str, *, up: bool = True, window: int = 4096, models: Sequence[str] = ()) -> None:
        super().__init__(url)
        self.up = up
        self.window = window
        self.asked = 0
        self.models = frozenset(models)
        self.declared_ranks = self.ranks

    async def refresh(self, limit_s: float = 1.0) -> bool:
        there = await self.is_there(limit_s)
        self.doubted = self.doubted and not there
        return there

    async def is_there(self, limit_s: float) -> bool:
        self.asked += 1
        self.max_model_len = self.window if self.up else self.max_model_len
        self.trouble = "" if self.up else f"{self.url} is down"
        return self.up

    async def told(self, path: str, *, limit_s: float) -> bytes | None:
        return None

    async def generate(
        self, body: bytes, *, request_id: str, rank: int = 0, session_id: str | None = None, doubts: bool = True
    ) -> AsyncGenerator[bytes]:
        content = [{"token_id": 1, "logprob": -0.5}]
        choice = {"token_ids": [1], "logprobs": {"content": content}, "finish_reason": "length"}
        yield orjson.dumps({"choices": [choice]})
        yield b"[DONE]"


class Pool:
    """The backends of some engines, and the calls that want their ranks."""

    def __init__(self, engines: Sequence[Engine], bounds: Bounds) -> None:
        self.metrics = Metrics()
        self.now_s = 0.0
        self.backends = Backends(engines, self.metrics, bounds=bounds, clock=lambda: self.now_s)
        self.calls: list[Call] = []
        self.sessions: dict[str, Affinity] = {}

    def session(self, name: str) -> Affinity:
        """The affinity of a session."""
        return self.sessions.setdefault(name, Affinity(name))

    def engine(self, url: str) -> Engine:
        """The engine of a URL."""
        return next(engine for engine in self.backends.engines if engine.url == url)

    def call(self, session: str, tokens: int = 1, **demand: object) -> "Call":
        """Begin a call, which takes its place in line before anybody else does."""
        call = Call(self, self.session(session), Demand(tokens, **demand))  # type: ignore[arg-type]  # as the test says
        self.calls.append(call)
        return call

    def counted(self, name: str, **labels: str) -> float:
        """The value of a metric; an engine's is named by its URL."""
        if "engine" in labels:
            labels["engine"] = self.metrics.engine_labels.of(labels["engine"])
        return self.metrics.registry.get_sample_value(name, labels) or 0.0

    def holds_nothing(self) -> None:
        """Nobody has a rank, nobody waits, and nothing is kept of those who did."""
        holds_nothing(self.backends)
        assert all(not affinity.in_flight for affinity in self.sessions.values())


class Call:
    """One call: it wants a rank, has it, and gives it back when told."""

    def __init__(self, pool: Pool, affinity: Affinity, demand: Demand) -> None:
        self.lease: Lease | None = None
        self.affinity = affinity
        self.demand = demand
        self.over = asyncio.Event()
        """Set when the rank is to be given back."""
        self._leased = asyncio.Event()
        self.task = asyncio.ensure_future(self._run(pool.backends))

    async def _run(self, backends: Backends) -> str:
        async with backends.lease(self.affinity, self.demand) as self.lease:
            self._leased.set()
            await self.over.wait()
            return self.lease.rank.name

    @property
    def rank(self) -> str | None:
        """The rank that it has or had; ``None`` while it waits."""
        return None if self.lease is None else self.lease.rank.name

    async def end(self, tokens: int | None = None) -> str:
        """Give the rank back as soon as it is had, with a context of `tokens` cached there; its name."""
        if tokens is not None:
            await self._leased.wait()
            assert self.lease is not None
            self.lease.heard()
            self.lease.ended(tokens)
        self.over.set()
        return await self.task

    async def cancel(self) -> None:
        """Have it cancelled, if it has not come to an end."""
        self.task.cancel()
        with suppress(asyncio.CancelledError, GatewayError):
            await self.task


def leased(*calls: Call) -> list[bool]:
    """Which of the calls have a rank."""
    return [call.rank is not None for call in calls]


async def settle() -> None:
    """Let everybody go as far as they can."""
    for _ in range(12):
        await asyncio.sleep(0)


@asynccontextmanager
async def pooled(*engines: Engine, **bounds: object) -> AsyncIterator[Pool]:
    """A pool of engines, each asked once; afterwards nothing may be left of its calls."""
    pool = Pool(engines, Bounds(**bounds))  # type: ignore[arg-type]  # as the test says
    await pool.backends.refresh()
    try:
        yield pool
        for call in pool.calls:
            await call.cancel()
        pool.holds_nothing()
    finally:
        await pool.backends.close()


def deps_of(renderers: Renderers, backends: Backends, store: Store, metrics: Metrics, *, attempts: int = 0) -> Deps:
    """What turns need, without an application; the thread that renders is to be shut down."""
    thread, resuming = ThreadPoolExecutor(1, "render"), Resuming(attempts)
    return Deps(renderers, backends, store, metrics, thread, Probes((0,)), resuming=resuming)


def holds_nothing(backends: Backends) -> None:
    """Nobody has a rank, nobody waits, and nothing is kept of those who did."""
    queues = backends._queues
    for place in backends.places.all():
        assert (place.in_flight, place.prefilling_tokens, place.waiting, place.queued_tokens) == (0, 0, 0, 0)
    assert [*queues._waiting, *queues._standing, *queues._held, *queues._queues] == []
