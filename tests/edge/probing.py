"""One engine and its probes, and an engine that answers them when a test wants."""

import asyncio
from collections.abc import Mapping
from typing import Any

from aiohttp import web

from gateway.edge.backends import Backends
from gateway.edge.engine import Engine
from gateway.edge.metrics import Metrics
from gateway.edge.probe import Probes
from gateway.sim import create_sim
from tests.edge.house import Application, until

PROCESSED: Mapping[str, Any] = {"logprobs_mode": "processed_logprobs"}


class Clock:
    """Time that passes when it is told to."""

    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


class Bench:
    """One engine and its probes, without a gateway."""

    def __init__(self, url: str) -> None:
        self.clock = Clock()
        self.engine = Engine(url)
        self.probes = Probes([1, 2, 3], self.clock)
        self.backends = Backends([self.engine], Metrics())

    async def __aenter__(self) -> "Bench":
        await self.backends.refresh()
        await until(lambda: self.engine.is_known, within_s=10)  # a busy machine may take longer than a start waits
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.probes.close()
        await self.backends.close()

    async def ask(self) -> None:
        """Have it asked, if that is due, and wait for what it says."""
        self.probes.begin(self.engine)
        await until(lambda: not self.probes.under_way, within_s=10)

    @property
    def mode(self) -> str:
        """What is known of the engine."""
        return self.engine.logprobs.mode

    @property
    def is_due(self) -> bool:
        """Whether it is to be asked now."""
        return self.probes.is_due(self.engine)


def slow_sim(released: asyncio.Event) -> Application:
    """An engine that answers probes when it is released."""

    @web.middleware
    async def slowly(request: web.Request, handler: Any) -> web.StreamResponse:
        if request.headers.get("X-Request-Id", "").startswith("probe-"):
            await released.wait()
        response: web.StreamResponse = await handler(request)
        return response

    app = create_sim(**PROCESSED)
    app.middlewares.insert(0, slowly)
    return app
