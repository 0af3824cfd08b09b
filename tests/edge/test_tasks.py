"""Tasks follow their waiters, and none outlives the application."""

import asyncio
from collections.abc import Callable

import pytest

from gateway.edge.tasks import WaitedTasks
from gateway.errors import EngineUnavailable
from tests.edge.house import until


class Work:
    """Something to do: it begins, waits for its end, and knows how it ended."""

    def __init__(self, failure: Exception | None = None) -> None:
        self.begun = False
        self.outcome: str | None = None
        self.end = asyncio.Event()
        self.failure = failure

    async def run(self) -> str:
        """Wait for the end."""
        self.begun = True
        try:
            await self.end.wait()
        except asyncio.CancelledError:
            self.outcome = "cancelled"
            raise
        self.outcome = "done"
        if self.failure is not None:
            raise self.failure
        return "done"


def always() -> bool:
    """Work that may be cancelled at any time."""
    return True


def never() -> bool:
    """Work that may not be cancelled any more."""
    return False


async def waited_for(tasks: WaitedTasks, work: Work, may_cancel: Callable[[], bool]) -> "asyncio.Task[str]":
    """A waiter for `work`, which has begun."""
    waiter = asyncio.ensure_future(tasks.start(work.run(), may_cancel=may_cancel).wait())
    await until(lambda: work.begun)
    return waiter


async def test_a_waiter_gets_the_result() -> None:
    """Or the failure, as it was raised."""
    tasks, good, bad = WaitedTasks(), Work(), Work(ValueError("no"))
    waiters = [await waited_for(tasks, work, always) for work in (good, bad)]
    good.end.set()
    bad.end.set()

    assert await waiters[0] == "done"
    with pytest.raises(ValueError, match="no"):
        await waiters[1]


async def test_a_waiter_that_leaves_ends_its_work() -> None:
    """At once, and the waiter does not wait for it."""
    tasks, work = WaitedTasks(), Work()
    waiter = await waited_for(tasks, work, always)

    waiter.cancel()

    with pytest.raises(asyncio.CancelledError):
        await waiter
    await until(lambda: work.outcome == "cancelled")


async def test_work_that_is_past_cancelling_goes_on_without_its_waiter() -> None:
    """Its waiter leaves all the same."""
    tasks, work = WaitedTasks(), Work()
    waiter = await waited_for(tasks, work, never)
    waiter.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiter
    assert work.outcome is None

    work.end.set()

    await until(lambda: work.outcome == "done")


async def test_a_failure_without_a_waiter_is_no_stray_exception() -> None:
    """The event loop is not told of an exception that was never retrieved."""
    tasks, work, strays = WaitedTasks(), Work(ValueError("no")), []
    asyncio.get_running_loop().set_exception_handler(lambda _loop, context: strays.append(context))
    waiter = await waited_for(tasks, work, never)
    waiter.cancel()
    await asyncio.gather(waiter, return_exceptions=True)

    work.end.set()
    await tasks.drain()

    assert work.outcome == "done"
    assert strays == []


async def test_draining_ends_what_may_be_ended_and_awaits_the_rest() -> None:
    """When it returns, nothing runs."""
    tasks, open_ended, closing = WaitedTasks(), Work(), Work()
    waiters = [await waited_for(tasks, open_ended, always), await waited_for(tasks, closing, never)]
    draining = asyncio.ensure_future(tasks.drain())
    await until(lambda: open_ended.outcome == "cancelled")
    assert not draining.done()

    closing.end.set()
    await draining

    assert closing.outcome == "done"
    outcomes = await asyncio.gather(*waiters, return_exceptions=True)
    assert isinstance(outcomes[0], EngineUnavailable)  # its waiter hears that it may try elsewhere
    assert outcomes[1] == "done"


async def test_nothing_is_kept_of_work_that_has_ended() -> None:
    """A gateway that runs for months does not grow with its turns."""
    tasks, work = WaitedTasks(), Work()
    waiter = await waited_for(tasks, work, always)
    work.end.set()
    await waiter
    await asyncio.sleep(0)

    assert not tasks._tasks
