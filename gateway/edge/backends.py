"""The engines of this gateway, and who may use them now."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

from gateway.core.pool import pick
from gateway.edge.engine import Engine
from gateway.edge.metrics import Metrics
from gateway.errors import EngineUnavailable, GatewayError

_WATCH_INTERVAL_S = 2.0


@dataclass(frozen=True, slots=True)
class Lease:
    """The right to run one turn on one engine."""

    engine: Engine
    rank: int
    max_model_len: int
    """The engine's context, in tokens."""


class Backends:
    """The engines by URL, and how many turns each has in flight. One rank an engine."""

    def __init__(self, engines: Sequence[Engine], metrics: Metrics) -> None:
        self._engines = {engine.url: engine for engine in engines}
        self._load = dict.fromkeys(self._engines, 0)
        self._in_flight = metrics.in_flight
        for url in self._engines:
            self._in_flight.labels(engine=url)

    async def open(self) -> None:
        """Make the connection pools and learn the engines' context lengths, of those that are up already."""
        for engine in self._engines.values():
            await engine.open()
        await self.refresh()

    async def close(self) -> None:
        """Close every engine's pool."""
        await asyncio.gather(*(engine.close() for engine in self._engines.values()))

    async def refresh(self) -> None:
        """Ask every engine that has not answered so far; one that does not answer is left as unknown."""
        await asyncio.gather(*(_attempt(engine) for engine in self._engines.values() if engine.max_model_len is None))

    async def watch(self) -> None:
        """Keep asking the engines that have not answered, until cancelled."""
        while True:
            await asyncio.sleep(_WATCH_INTERVAL_S)
            await self.refresh()

    @property
    def max_model_len(self) -> int | None:
        """The longest context that any engine offers, in tokens; ``None`` while none has answered."""
        return max((self._known()).values(), default=None)

    def _known(self) -> dict[str, int]:
        return {url: engine.max_model_len for url, engine in self._engines.items() if engine.max_model_len is not None}

    async def _available(self) -> dict[str, int]:
        if not self._known():
            await self.refresh()
        known = self._known()
        if not known:
            raise EngineUnavailable(f"no engine answers: asked {', '.join(self._engines) or 'none, see --engine'}")
        return known

    @asynccontextmanager
    async def lease(self, pinned: str | None) -> AsyncIterator[Lease]:
        """Hold an engine for one turn: the pinned one while it answers, else the least loaded.

        An engine that fails in use must answer a question before it gets another turn.

        Raises:
            EngineUnavailable: no engine answers.
        """
        known = await self._available()
        url = pick(list(known), self._load, pinned)
        assert url is not None
        engine = self._engines[url]
        self._load[url] += 1
        self._in_flight.labels(engine=url).inc()
        try:
            yield Lease(engine, 0, known[url])
        except EngineUnavailable:
            engine.max_model_len = None
            raise
        finally:
            self._load[url] -= 1
            self._in_flight.labels(engine=url).dec()

    async def relay(self, path: str) -> tuple[int, bytes]:
        """The first answering engine's answer to a GET."""
        known = await self._available()
        return await self._engines[next(iter(known))].get(path)


async def _attempt(engine: Engine) -> None:
    with suppress(GatewayError):
        await engine.refresh()
