"""Simulated engines that can be killed as a process is, and started again where they were."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web

from gateway.sim import FAULTS, JOURNAL, create_sim
from gateway.sim.keys import CONTROL
from gateway.sim.server import Entry
from tests.edge.house import generated

_ACCEPTING_ROUNDS = 5
"""Of the event loop. A connection is accepted some rounds before its server knows of it; one that is left behind then
is open for ever, and nobody reads it."""


class Machine:
    """One engine on a port of its own, in as many lives as it was started; it remembers what each of them was asked."""

    def __init__(self, **settings: Any) -> None:
        self._settings = settings
        self._past: list[Entry] = []
        self._app: web.Application | None = None
        self._runner: web.AppRunner | None = None
        self._sockets: asyncio.Server | None = None
        self.port = 0

    @property
    def url(self) -> str:
        """Where it is, alive or not."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def lives(self) -> bool:
        """Whether it answers."""
        return self._app is not None

    @property
    def app(self) -> web.Application:
        """The sim of this life."""
        assert self._app is not None
        return self._app

    @property
    def entries(self) -> list[Entry]:
        """What it was asked to generate for turns in all its lives."""
        return self._past + (generated(self.app) if self._app else [])

    @property
    def busy(self) -> int:
        """How many calls it is answering."""
        return self.app[JOURNAL].running if self._app else 0

    async def start(self) -> None:
        """Begin a life that knows nothing of the last one."""
        app = create_sim(**self._settings)
        self._runner = web.AppRunner(app, handler_cancellation=True, access_log=None, shutdown_timeout=1.0)
        await self._runner.setup()
        assert self._runner.server is not None
        loop = asyncio.get_running_loop()
        self._sockets = await loop.create_server(
            self._runner.server, "127.0.0.1", self.port, backlog=1024, reuse_address=True
        )
        self.port = self._sockets.sockets[0].getsockname()[1]
        self._app = app

    async def kill(self) -> None:
        """End as a process does that gets SIGKILL: nobody listens any more, and every connection is reset."""
        assert self._runner is not None
        assert self._runner.server is not None
        assert self._sockets is not None
        # It is closed when nothing is being accepted: that would be lost, and stay open.
        for listening in self._sockets.sockets:
            asyncio.get_running_loop().remove_reader(listening.fileno())
        for _ in range(_ACCEPTING_ROUNDS):
            for connection in list(self._runner.server.connections):
                if connection.transport is not None:
                    connection.transport.abort()
            await asyncio.sleep(0)
        self._sockets.close()
        self._past, self._app = self.entries, None
        await self._runner.cleanup()

    def inject(self, kind: str, after: int) -> None:
        """Let the next call go wrong, unless another one is already to."""
        if not self.app[FAULTS]:
            self.app[FAULTS].inject(kind, after=after)

    def abort(self) -> int:
        """End every call with the finish reason abort, as a trainer may; how many there were."""
        return self.app[CONTROL].abort(None)


@asynccontextmanager
async def fleet(count: int, **settings: Any) -> AsyncIterator[list[Machine]]:
    """So many engines, alive."""
    machines = [Machine(**settings) for _ in range(count)]
    try:
        for machine in machines:
            await machine.start()
        yield machines
    finally:
        for machine in machines:
            if machine.lives:
                await machine.kill()
