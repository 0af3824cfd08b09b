"""Cancelling a call at each of its awaits, those of the tasks that it starts included."""

import asyncio
import types
from collections.abc import Callable, Coroutine, Generator
from contextvars import ContextVar
from functools import partial
from typing import Any

_CURRENT: ContextVar["Suspensions"] = ContextVar("current")


class Suspensions:
    """Counts how often a task and its children wait, and cancels the task when they do for the time number `at`.

    With `stop`, it calls that instead.
    """

    def __init__(self, at: int, stop: Callable[[], object] | None = None) -> None:
        self.at = at
        self._stop = stop
        self.reached = False
        self._count = 0
        self._task: asyncio.Task[Any] | None = None

    async def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        """Do the work in this task, which must be its own."""
        self._task = asyncio.current_task()
        _CURRENT.set(self)
        asyncio.get_running_loop().set_task_factory(_counting)
        return await self.watched(work)

    async def watched(self, work: Coroutine[Any, Any, Any]) -> Any:
        """Do the work, and count."""
        return await _stepped(work, self)

    def note(self) -> None:
        """Something waits."""
        if self._count == self.at:
            assert self._task is not None
            self.reached = True
            asyncio.get_running_loop().call_soon(self._stop or self._task.cancel)
        self._count += 1


def _counting(loop: asyncio.AbstractEventLoop, work: Any, **options: Any) -> "asyncio.Task[Any]":
    current = _CURRENT.get(None)
    return asyncio.Task(work if current is None else current.watched(work), loop=loop, **options)


@types.coroutine
def _stepped(work: Coroutine[Any, Any, Any], suspensions: Suspensions) -> Generator[Any, None, Any]:
    step = partial(work.send, None)
    while True:
        try:
            awaited = step()
        except StopIteration as end:
            return end.value
        suspensions.note()
        try:
            yield awaited
        except asyncio.CancelledError as error:
            step = partial(work.throw, error)
        else:
            step = partial(work.send, None)
