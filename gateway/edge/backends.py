"""The engines of this gateway, and who may use them now."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial

from gateway.core.pool import pick
from gateway.edge.engine import Engine
from gateway.edge.metrics import Metrics
from gateway.errors import EngineUnavailable

_WATCH_INTERVAL_S = 2.0


@dataclass(frozen=True, slots=True)
class Rank:
    """One data-parallel rank of an engine: what a turn runs on."""

    engine: Engine
    number: int

    @property
    def name(self) -> str:
        """The engine's URL and the rank's number."""
        return f"{self.engine.url}#{self.number}"


class Backends:
    """The engines and their ranks, and how many turns each rank has in flight.

    `admitted` is told of each engine that answers, at first or again, also where that was found out by a turn.
    """

    def __init__(
        self, engines: Sequence[Engine], metrics: Metrics, admitted: Callable[[Engine], None] = lambda _engine: None
    ) -> None:
        self._engines = engines
        self._admitted = admitted
        for engine in engines:
            engine.when_reconnected = partial(admitted, engine)
        ranks = [Rank(engine, number) for engine in engines for number in range(engine.ranks)]
        self._ranks = {rank.name: rank for rank in ranks}
        self._load = dict.fromkeys(self._ranks, 0)
        for rank in ranks:
            gauge = metrics.in_flight.labels(engine=rank.engine.url, rank=str(rank.number))
            gauge.set_function(partial(self._load.__getitem__, rank.name))

    async def close(self) -> None:
        """Close every engine's pool."""
        await asyncio.gather(*(engine.close() for engine in self._engines))

    async def refresh(self) -> None:
        """Ask every engine that does not answer so far; one that still does not is left for the next time."""
        await asyncio.gather(*(self._ask(engine) for engine in self._engines if engine.max_model_len is None))

    async def _ask(self, engine: Engine) -> None:
        await engine.refresh()
        if engine.max_model_len is not None:
            self._admitted(engine)

    async def watch(self) -> None:
        """Keep asking the engines that do not answer, until cancelled."""
        while True:
            await asyncio.sleep(_WATCH_INTERVAL_S)
            await self.refresh()

    def known(self) -> dict[str, int]:
        """The ranks of the engines that answer, and the context that each offers, in tokens."""
        windows = {name: rank.engine.max_model_len for name, rank in self._ranks.items()}
        return {name: window for name, window in windows.items() if window is not None}

    async def answering(self) -> dict[str, int]:
        """As `known`, asking again while none answers.

        Raises:
            EngineUnavailable: still none does.
        """
        if not self.known():
            await self.refresh()
        reasons = "; ".join(engine.trouble for engine in self._engines)
        if not self.known():
            raise EngineUnavailable(f"no engine answers: {reasons or 'there is none, see --engine'}")
        return self.known()

    @asynccontextmanager
    async def lease(self, pinned: str | None, session_id: str, *, tokens: int = 0) -> AsyncIterator[Rank]:
        """Hold a rank for one turn, as `pick` chooses among those that answer, and hold `tokens` if any do.

        Raises:
            EngineUnavailable: no engine answers.
        """
        windows = await self.answering()
        wide = [name for name, window in windows.items() if window >= tokens]
        name = pick(wide or list(windows), self._load, pinned, session_id)
        assert name is not None
        self._load[name] += 1
        try:
            yield self._ranks[name]
        finally:
            self._load[name] -= 1

    async def relay(self, path: str) -> tuple[int, bytes]:
        """The first answering engine's answer to a GET."""
        return await self._ranks[next(iter(await self.answering()))].engine.get(path)
