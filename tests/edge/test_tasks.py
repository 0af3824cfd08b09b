"""Tasks follow their waiters, and none outlives the application."""

import asyncio
import gc
import weakref
from collections.abc import Callable

import pytest
from structlog.testing import capture_logs

from gateway.edge.tasks import WaitedTask, WaitedTasks, together
from gateway.errors import EngineUnavailable, GatewayDraining
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


async def joined(task: WaitedTask[str]) -> "asyncio.Task[str]":
    """One more waiter."""
    before = task.waiters
    waiter = asyncio.ensure_future(task.wait())
    await until(lambda: task.waiters > before)
    return waiter


async def left(waiter: "asyncio.Task[str]") -> None:
    """A waiter leaves."""
    waiter.cancel()
    await asyncio.gather(waiter, return_exceptions=True)


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


async def test_a_failure_that_is_known_early_is_told_at_once() -> None:
    """What is left to do goes on, nobody should join meanwhile, and draining still awaits it."""
    tasks, end = WaitedTasks(), asyncio.Event()

    async def work() -> str:
        tasks.fail(ValueError("no"))
        await end.wait()
        raise ValueError("something else")

    task = tasks.start(work(), may_cancel=never)
    with pytest.raises(ValueError, match="no"):
        await task.wait()
    assert not task.running
    draining = asyncio.ensure_future(tasks.drain())
    await asyncio.sleep(0.01)
    assert not draining.done()

    end.set()

    await draining
    with pytest.raises(ValueError, match="no"):
        await task.wait()


async def test_a_cancellation_that_is_known_early_is_told_as_what_it_comes_to() -> None:
    """The work may turn it into an error of its own."""
    tasks = WaitedTasks()

    async def work() -> str:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError as error:
            tasks.fail(error)
            await asyncio.sleep(0.01)
            assert not task.running
            raise ValueError("closed") from None
        return ""

    task = tasks.start(work(), may_cancel=always)
    waiter = await joined(task)
    await asyncio.sleep(0)
    task._task.cancel()

    with pytest.raises(ValueError, match="closed"):
        await waiter


async def test_a_failure_that_nobody_waits_for_is_one_line() -> None:
    """An outcome of ours says what it was; only a bug says where."""
    tasks, lines = WaitedTasks(), []
    for failure in (EngineUnavailable("no"), ValueError("swordfish")):
        work = Work(failure)
        with capture_logs() as logged:
            task = tasks.start(work.run(), may_cancel=never, about={"request_id": "r"})
            await left(await joined(task))
            work.end.set()
            await tasks.drain()
        lines += logged

    outcome, bug = lines
    told = {"event": "failed after its client had left", "request_id": "r"}
    assert outcome == {**told, "code": "engine_unavailable", "status": 503, "log_level": "info"}
    assert bug.items() >= {**told, "log_level": "error", "exc_info": False}.items()
    assert "in run" in bug["traceback"]


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
    assert isinstance(outcomes[0], GatewayDraining)  # its waiter hears that it may try elsewhere
    assert outcomes[1] == "done"


async def test_nothing_is_kept_of_work_that_has_ended() -> None:
    """A gateway that runs for months does not grow with its turns."""
    tasks, work = WaitedTasks(), Work()
    waiter = await waited_for(tasks, work, always)
    work.end.set()
    await waiter
    await asyncio.sleep(0)

    assert not tasks._tasks


async def test_work_goes_on_until_its_last_waiter_has_left() -> None:
    """Whoever of them came first."""
    tasks, work = WaitedTasks(), Work()
    task = tasks.start(work.run(), may_cancel=always)
    first, second = await joined(task), await joined(task)

    await left(first)
    assert (task.running, task.waiters) == (True, 1)
    await left(second)

    assert not task.running  # from now on nobody should join
    await until(lambda: work.outcome == "cancelled")
    assert task.result is None


async def test_all_waiters_get_the_same_result() -> None:
    """Those too that come when it is there already."""
    tasks, work = WaitedTasks(), Work()
    task = tasks.start(work.run(), may_cancel=always)
    waiters = [await joined(task) for _ in range(3)]
    work.end.set()

    assert await asyncio.gather(*waiters) == ["done"] * 3
    assert (task.result, await task.wait()) == ("done", "done")


async def test_work_that_is_left_alone_ends_after_the_grace() -> None:
    """Not before, so that it may still be joined."""
    tasks, work = WaitedTasks(grace_s=0.05), Work()
    task = tasks.start(work.run(), may_cancel=always)

    await left(await joined(task))

    assert task.running
    await until(lambda: work.outcome == "cancelled")
    assert not task.running


async def test_joining_within_the_grace_saves_the_work() -> None:
    """It lives as long as the one who joined, and has its whole grace again afterwards."""
    tasks, work = WaitedTasks(grace_s=0.05), Work()
    task = tasks.start(work.run(), may_cancel=always)
    await left(await joined(task))
    waiter = await joined(task)

    await asyncio.sleep(0.1)
    assert task.running
    await left(waiter)
    assert task.running
    work.end.set()

    await until(lambda: work.outcome == "done")


async def test_work_that_is_sealed_within_the_grace_goes_on() -> None:
    """The end of the grace changes nothing any more."""
    tasks, work, sealed = WaitedTasks(grace_s=0.02), Work(), asyncio.Event()
    task = tasks.start(work.run(), may_cancel=lambda: not sealed.is_set())
    await left(await joined(task))
    sealed.set()

    await asyncio.sleep(0.05)
    assert task.running
    work.end.set()

    assert await task.wait() == "done"


async def test_draining_ends_every_grace() -> None:
    """The application does not wait for retries when it stops."""
    tasks, work = WaitedTasks(grace_s=60), Work()
    task = tasks.start(work.run(), may_cancel=always)
    await left(await joined(task))

    await asyncio.wait_for(tasks.drain(), 1)

    assert work.outcome == "cancelled"


async def test_who_asks_is_told_of_every_end() -> None:
    """Of a result, of a failure, and when it comes late."""
    tasks, good, bad = WaitedTasks(), Work(), Work(ValueError("no"))
    told: list[str | None] = []
    for work in (good, bad):
        task = tasks.start(work.run(), may_cancel=always)
        task.when_done(lambda task=task: told.append(task.result))  # type: ignore[misc]  # each its own task
        work.end.set()
        await asyncio.gather(task.wait(), return_exceptions=True)

    await until(lambda: told == ["done", None])


async def test_of_work_that_has_ended_only_the_result_is_kept() -> None:
    """What it was asked to do is not: requests are large, and the task may be remembered for long."""

    class Asked:
        def __call__(self) -> bool:
            return True

    asked, work = Asked(), Work()
    task, kept = WaitedTasks().start(work.run(), may_cancel=asked), weakref.ref(asked)
    del asked
    work.end.set()
    await task.wait()
    await asyncio.sleep(0)
    gc.collect()

    assert kept() is None
    assert task.result == "done"


async def test_what_is_done_together_ends_together() -> None:
    """The first failure ends the others, and is raised as it is once they have ended."""
    good, bad = Work(), Work(ValueError("no"))

    async def run(work: Work) -> None:
        await work.run()

    doing = asyncio.ensure_future(together(map(run, (good, bad))))
    await until(lambda: good.begun and bad.begun)
    bad.end.set()

    with pytest.raises(ValueError, match="no"):
        await doing
    assert good.outcome == "cancelled"
