"""Tasks that live as long as somebody waits for them.

A turn runs in a task of its own, owned by the application and kept alive by its waiters: usually the one
HTTP request that asked for it, sometimes a retry that joined it. When the last waiter leaves, the task is
cancelled, at once or after a grace in which a retry may still join. When the application stops, every task is
awaited.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, Generic, TypeVar

import structlog

from gateway.errors import EngineUnavailable

log = structlog.get_logger()
T = TypeVar("T")


class WaitedTask(Generic[T]):
    """Work under way, and those who wait for it. When it has ended, it no longer knows what it was asked to do."""

    def __init__(self, work: Coroutine[Any, Any, T], may_cancel: Callable[[], bool], grace_s: float) -> None:
        self._task = asyncio.create_task(work)
        self._may_cancel: Callable[[], bool] | None = may_cancel
        self._grace_s = grace_s
        self._timer: asyncio.TimerHandle | None = None
        self._cancelled = False
        self._task.add_done_callback(self._end)
        self.waiters = 0
        """How many wait for it now."""

    @property
    def running(self) -> bool:
        """It will still have a result or an error for who joins."""
        return not (self._task.done() or self._cancelled)

    @property
    def result(self) -> T | None:
        """What it came to; ``None`` as long as it runs, and when it failed or was cancelled."""
        ended = self._task.done() and not self._task.cancelled() and self._task.exception() is None
        return self._task.result() if ended else None

    async def wait(self) -> T:
        """Be one of its waiters.

        Whoever is cancelled leaves; the last to leave ends the work, unless it is past that: then it goes on by
        itself.

        Raises:
            EngineUnavailable: the application is stopping.
        """
        self.waiters += 1
        self._stop_timer()
        try:
            return await asyncio.shield(self._task)
        except asyncio.CancelledError:
            if self._task.cancelled():
                raise EngineUnavailable("the gateway is stopping") from None
            raise
        finally:
            self.waiters -= 1
            if not self.waiters and self.running:
                self._left_alone()

    def when_done(self, tell: Callable[[], None]) -> None:
        """Call `tell` as soon as it has ended, however it ends."""
        self._task.add_done_callback(lambda _task: tell())

    def cancel(self) -> None:
        """End it, if it is not past that."""
        self._stop_timer()
        if self._may_cancel is not None and self._may_cancel():
            self._cancelled = True
            self._task.cancel()

    def _left_alone(self) -> None:
        if self._grace_s:
            self._timer = asyncio.get_running_loop().call_later(self._grace_s, self.cancel)
        else:
            self.cancel()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _end(self, task: asyncio.Task[T]) -> None:
        self._stop_timer()
        self._may_cancel = None  # it knows the request, which need not outlive the work
        error = None if task.cancelled() else task.exception()
        if error is not None and not self.waiters:
            log.error("failed after its client had left", exc_info=error)


class WaitedTasks:
    """The running tasks of one application."""

    def __init__(self, grace_s: float = 0.0) -> None:
        self._grace_s = grace_s
        self._tasks: dict[asyncio.Task[Any], WaitedTask[Any]] = {}

    def start(self, work: Coroutine[Any, Any, T], *, may_cancel: Callable[[], bool]) -> WaitedTask[T]:
        """Begin `work`, to be waited for; it is cancelled only while `may_cancel` says so."""
        waited = WaitedTask(work, may_cancel, self._grace_s)
        self._tasks[waited._task] = waited
        waited._task.add_done_callback(self._tasks.pop)
        return waited

    async def drain(self) -> None:
        """Cancel what may still be cancelled, and wait until everything has ended."""
        tasks = dict(self._tasks)
        for waited in tasks.values():
            waited.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def together(works: Iterable[Coroutine[Any, Any, None]]) -> None:
    """Do all of them at once. When one fails the others are cancelled and have ended before its error is raised."""
    try:
        async with asyncio.TaskGroup() as group:
            for work in works:
                group.create_task(work)
    except BaseExceptionGroup as failures:
        raise failures.exceptions[0] from None
