"""The end of a gateway: no new sessions, or no new turns; then nothing is left to wait for."""

import asyncio
from typing import Any

import structlog

from gateway.edge.answering import Answering
from gateway.edge.sessions import Sessions
from gateway.edge.tasks import WaitedTasks

log = structlog.get_logger()

_LOOK_S = 0.02
"""How often to look whether the last answers have left."""


class Draining:
    """Once begun it goes on by itself, and is never taken back. Mutable: how far it is.

    What has been taken on goes on until all of it has ended and its answers have left, or for `timeout_s`; then what
    is left is broken off.
    """

    def __init__(self, sessions: Sessions, tasks: WaitedTasks, answering: Answering, timeout_s: float) -> None:
        self._sessions = sessions
        self._tasks = tasks
        self._answering = answering
        self._timeout_s = timeout_s
        self._begun, self._hurried = asyncio.Event(), asyncio.Event()
        self.done = asyncio.Event()
        """Set when no turn is in flight any more, and none will be."""
        self.broken = False
        """Whether something was broken off."""

    @property
    def in_flight(self) -> int:
        """How many calls of agents are under way."""
        return len(self._tasks)

    def begin(self) -> None:
        """Take no new sessions from now on; those that exist may begin turns until none is in flight.

        May be repeated.
        """
        if self._begun.is_set():
            return
        log.info("drain", in_flight=self.in_flight, timeout_s=self._timeout_s)
        self._sessions.admit("existing")
        self._begun.set()

    def close(self) -> None:
        """Take no new turns from now on, whosever they are. May be repeated."""
        self.begin()
        self._sessions.admit("none")

    def hurry(self) -> None:
        """Break off what is in flight now."""
        self.close()
        self._hurried.set()

    async def run(self) -> None:
        """Wait until it is begun, and see it through."""
        await self._begun.wait()
        hurried = asyncio.ensure_future(self._hurried.wait())
        try:
            await self._until_ended(hurried)
            self._sessions.admit("none")
            self.broken = bool(self._tasks or self._answering)
            if self.broken:
                log.warning("calls are broken off", in_flight=self.in_flight, answers=len(self._answering))
            await self._tasks.drain()
        finally:
            hurried.cancel()
            self.done.set()

    async def _until_ended(self, hurried: "asyncio.Future[Any]") -> None:
        """Wait for turns, and for answers to leave, during which others may begin; not longer than it may take."""
        clock = asyncio.get_running_loop().time
        until_s = clock() + self._timeout_s
        while (self._tasks or self._answering) and not hurried.done() and clock() < until_s:
            await self._tasks.ended(until_s - clock(), unless=hurried)
            await asyncio.wait({hurried}, timeout=min(_LOOK_S, until_s - clock()))

    async def finish(self) -> None:
        """Begin it, unless it has begun, and wait for its end."""
        self.begin()
        await self.done.wait()
