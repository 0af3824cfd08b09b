"""The engines of this gateway, and who may use them now."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial

from gateway.core.pool import pick
from gateway.edge.engine import Engine
from gateway.edge.metrics import Metrics
from gateway.errors import EngineUnavailable

_WATCH_INTERVAL_S = 2.0


class Backends:
    """The engines, and how many turns each has in flight. One rank an engine."""

    def __init__(self, engines: Sequence[Engine], metrics: Metrics) -> None:
        self._engines = {engine.url: engine for engine in engines}
        self._load = dict.fromkeys(self._engines, 0)
        for url in self._engines:
            metrics.in_flight.labels(engine=url).set_function(partial(self._load.__getitem__, url))

    async def close(self) -> None:
        """Close every engine's pool."""
        await asyncio.gather(*(engine.close() for engine in self._engines.values()))

    async def refresh(self) -> None:
        """Ask every engine that does not answer so far; one that still does not is left for the next time."""
        await asyncio.gather(*(engine.refresh() for engine in self._engines.values() if engine.max_model_len is None))

    async def watch(self) -> None:
        """Keep asking the engines that do not answer, until cancelled."""
        while True:
            await asyncio.sleep(_WATCH_INTERVAL_S)
            await self.refresh()

    def known(self) -> dict[str, int]:
        """The engines that answer, and the context that each offers, in tokens."""
        return {url: engine.max_model_len for url, engine in self._engines.items() if engine.max_model_len is not None}

    async def answering(self) -> dict[str, int]:
        """As `known`, asking again while none answers.

        Raises:
            EngineUnavailable: still none does.
        """
        if not self.known():
            await self.refresh()
        reasons = "; ".join(engine.trouble for engine in self._engines.values())
        if not self.known():
            raise EngineUnavailable(f"no engine answers: {reasons or 'there is none, see --engine'}")
        return self.known()

    @asynccontextmanager
    async def lease(self, pinned: str | None) -> AsyncIterator[Engine]:
        """Hold an engine for one turn: the pinned one while it answers, else the least loaded.

        Raises:
            EngineUnavailable: no engine answers.
        """
        url = pick(list(await self.answering()), self._load, pinned)
        assert url is not None
        self._load[url] += 1
        try:
            yield self._engines[url]
        finally:
            self._load[url] -= 1

    async def relay(self, path: str) -> tuple[int, bytes]:
        """The first answering engine's answer to a GET."""
        return await self._engines[next(iter(await self.answering()))].get(path)
