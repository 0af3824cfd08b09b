"""Tasks that live as long as somebody waits for them.

A turn runs in a task of its own, owned by the application and kept alive by its waiters: usually the one
HTTP request that asked for it, sometimes a retry that joined it. When the last waiter leaves, the task is
cancelled, at once or after a grace in which a retry may still join. When the application stops, every task is
awaited.
"""

import asyncio
import traceback
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Generic, TypeVar

import structlog

from gateway.edge.log import where
from gateway.errors import GatewayDraining, GatewayError

log = structlog.get_logger()
T = TypeVar("T")


class WaitedTask(Generic[T]):
    """Work under way, and those who wait for it. When it has ended, it no longer knows what it was asked to do.

    Its outcome can be known before it has ended, see `WaitedTasks.fail`.
    """

    def __init__(
        self, work: Coroutine[Any, Any, T], may_cancel: Callable[[], bool], grace_s: float, about: Mapping[str, str]
    ) -> None:
        self._task = asyncio.create_task(work)
        self._outcome: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._may_cancel: Callable[[], bool] | None = may_cancel
        self._grace_s = grace_s
        self._timer: asyncio.TimerHandle | None = None
        self._doomed = False
        self._about = about
        self._task.add_done_callback(self._end)
        self.waiters = 0
        """How many wait for it now."""

    @property
    def running(self) -> bool:
        """Whether it may still have a result for a retry that joins."""
        return not (self._doomed or self._task.done())

    @property
    def result(self) -> T | None:
        """What it came to; ``None`` as long as it runs, and when it failed or was cancelled."""
        ended = self._task.done() and not self._task.cancelled() and self._task.exception() is None
        return self._task.result() if ended else None

    @contextmanager
    def attended(self) -> Iterator[None]:
        """Be one of its waiters. The last to leave ends the work, unless it is past that: then it goes on by itself."""
        self.waiters += 1
        self._stop_timer()
        try:
            yield
        finally:
            self.waiters -= 1
            if not self.waiters and self.running:
                self._left_alone()

    async def wait(self) -> T:
        """Be one of its waiters, for what it comes to.

        Raises:
            GatewayDraining: the application is stopping.
        """
        with self.attended():
            try:
                return await asyncio.shield(self._outcome)
            except asyncio.CancelledError:
                if self._outcome.cancelled():
                    raise GatewayDraining(
                        "the gateway is stopping, before this has come to its end: try another"
                    ) from None
                raise

    def when_done(self, tell: Callable[[], None]) -> None:
        """Call `tell` as soon as it is known what it comes to, however it ends."""
        self._outcome.add_done_callback(lambda _outcome: tell())

    def cancel(self) -> None:
        """End it, if it is not past that."""
        self._stop_timer()
        if self._may_cancel is not None and self._may_cancel():
            self._doomed = True
            self._task.cancel()

    def fail(self, error: BaseException) -> None:
        """See `WaitedTasks.fail`."""
        self._doomed = True
        if not isinstance(error, asyncio.CancelledError):  # why that was is told at the end
            self._settle(error)

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
        self._may_cancel = None  # it knows the request, and need not outlive the work
        try:
            error = task.exception()
        except asyncio.CancelledError:  # raised, it is no longer kept by the task
            self._outcome.cancel()
            return
        if error is not None:
            self._settle(error)
            _forget(error)
        elif not self._outcome.done():
            self._outcome.set_result(task.result())

    def _settle(self, error: BaseException) -> None:
        """Tell the waiters of a failure, the first one that is known; or the log, when nobody waits."""
        if self._outcome.done():
            return
        self._outcome.set_exception(error)
        self._outcome.exception()  # it counts as looked at, or the event loop complains
        if self.waiters:
            return
        if isinstance(error, GatewayError):
            log.info("failed after its client had left", code=error.code, status=error.status, **self._about)
        else:
            log.error("failed after its client had left", **where(error), **self._about)


class WaitedTasks:
    """The running tasks of one application."""

    def __init__(self, grace_s: float = 0.0) -> None:
        self._grace_s = grace_s
        self._tasks: dict[asyncio.Task[Any], WaitedTask[Any]] = {}

    def start(
        self, work: Coroutine[Any, Any, T], *, may_cancel: Callable[[], bool], about: Mapping[str, str] | None = None
    ) -> WaitedTask[T]:
        """Begin `work`, to be waited for; it is cancelled only while `may_cancel` says so.

        `about` is for the log.
        """
        waited = WaitedTask(work, may_cancel, self._grace_s, about or {})
        self._tasks[waited._task] = waited
        waited._task.add_done_callback(self._tasks.pop)
        return waited

    def __len__(self) -> int:
        """How many there are."""
        return len(self._tasks)

    async def ended(self, limit_s: float, *, unless: "asyncio.Future[Any]") -> None:
        """Wait until there is none, those included that begin meanwhile; no longer than so, or until `unless` is done.

        They go on, those that are left.
        """
        clock = asyncio.get_running_loop().time
        until_s = clock() + limit_s
        while self._tasks and not unless.done() and clock() < until_s:
            ending = asyncio.gather(*self._tasks, return_exceptions=True)
            await asyncio.wait({ending, unless}, timeout=until_s - clock(), return_when=asyncio.FIRST_COMPLETED)

    def fail(self, error: BaseException) -> None:
        """Say, from within a task of these, that it will fail with `error`, though it has something left to do.

        From now on nobody should join it; those who wait hear the error at once, unless it is a cancellation.
        """
        task = asyncio.current_task()
        assert task is not None
        self._tasks[task].fail(error)

    def is_alone(self) -> bool:
        """Whether nobody waits any more for the task, one of these, that asks."""
        task = asyncio.current_task()
        assert task is not None
        return not self._tasks[task].waiters

    async def drain(self) -> None:
        """Cancel what may still be cancelled, and wait until everything has ended."""
        tasks = dict(self._tasks)
        for waited in tasks.values():
            waited.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _forget(failure: BaseException) -> None:
    """Free what was in hand wherever a failure passed, which is kept otherwise for as long as the failure is.

    Who is told of it early must have it `noted` before waiting for anything else: that takes the traceback away, in
    which its own frames stand. A frame that waits would be ended here without a word (Python up to 3.12).
    """
    error: BaseException | None = failure
    while error is not None:
        traceback.clear_frames(error.__traceback__)
        error = error.__context__


async def together(works: Iterable[Coroutine[Any, Any, None]]) -> None:
    """Do all of them at once. When one fails the others are cancelled and have ended before its error is raised."""
    try:
        async with asyncio.TaskGroup() as group:
            for work in works:
                group.create_task(work)
    except BaseExceptionGroup as failures:
        raise failures.exceptions[0] from None
