"""The end of a gateway: no new sessions, then no turns, then nothing is left to wait for."""

import asyncio

import structlog

from gateway.edge.sessions import Sessions
from gateway.edge.tasks import WaitedTasks

log = structlog.get_logger()


class Draining:
    """Once begun it goes on by itself, and is never taken back. Mutable: how far it is.

    Sessions that exist may take turns until none is in flight, or for `timeout_s`; then what is left is broken off.
    """

    def __init__(self, sessions: Sessions, tasks: WaitedTasks, timeout_s: float) -> None:
        self._sessions = sessions
        self._tasks = tasks
        self._timeout_s = timeout_s
        self._begun, self._hurried = asyncio.Event(), asyncio.Event()
        self.done = asyncio.Event()
        """Set when no turn is in flight any more, and none will be."""
        self.broken = 0
        """How many calls were broken off."""

    @property
    def in_flight(self) -> int:
        """How many calls of agents are under way."""
        return len(self._tasks)

    def begin(self) -> None:
        """Take no new sessions from now on. May be repeated."""
        if not self._begun.is_set():
            log.info("drain", in_flight=self.in_flight, timeout_s=self._timeout_s)
        self._begun.set()
        self._sessions.admit("existing")

    def hurry(self) -> None:
        """Break off what is in flight now."""
        self.begin()
        self._hurried.set()

    async def run(self) -> None:
        """Wait until it is begun, and see it through."""
        await self._begun.wait()
        hurried = asyncio.ensure_future(self._hurried.wait())
        try:
            await self._tasks.ended(self._timeout_s, unless=hurried)
            self._sessions.admit("none")
            if self._tasks:
                self.broken = self.in_flight
                log.warning("turns are broken off", in_flight=self.broken)
            await self._tasks.drain()
        finally:
            hurried.cancel()
            self.done.set()

    async def finish(self) -> None:
        """Begin it, unless it has begun, and wait for its end."""
        self.begin()
        await self.done.wait()
