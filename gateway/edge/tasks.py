"""Tasks that outlive or follow their waiters.

A turn runs in a task of its own, owned by the application and kept alive by its waiters: usually the one
HTTP request that asked for it. When the last waiter leaves, the task is cancelled; when the application
stops, every task is awaited.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import structlog

from gateway.errors import EngineUnavailable

log = structlog.get_logger()
T = TypeVar("T")


class WaitedTasks:
    """The running tasks of one application."""

    def __init__(self) -> None:
        self._tasks: dict[asyncio.Task[Any], Callable[[], bool]] = {}

    async def run(self, work: Coroutine[Any, Any, T], *, may_cancel: Callable[[], bool]) -> T:
        """Run `work` for one waiter: the caller.

        A caller that is cancelled cancels the work, unless `may_cancel` says that it is past that; then it
        ends by itself, and its failure is retrieved here.

        Raises:
            EngineUnavailable: the application is stopping.
        """
        task = asyncio.create_task(work)
        self._tasks[task] = may_cancel
        task.add_done_callback(self._tasks.pop)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            if task.cancelled():
                raise EngineUnavailable("the gateway is stopping") from None
            if not task.done():
                task.cancel() if may_cancel() else task.add_done_callback(_report)
            raise

    async def drain(self) -> None:
        """Cancel what may still be cancelled, and wait until everything has ended."""
        tasks = dict(self._tasks)
        for task, may_cancel in tasks.items():
            if may_cancel():
                task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _report(task: asyncio.Task[Any]) -> None:
    """Say what went wrong when nobody is left to be told."""
    error = None if task.cancelled() else task.exception()
    if error is not None:
        log.error("failed after its client had left", exc_info=error)
