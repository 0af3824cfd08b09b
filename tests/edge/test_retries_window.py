"""What is remembered for retries: for how long, how much, and what not."""

import asyncio
import gc
import time
import weakref
from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import count

import pytest

from gateway.edge.retries import Retries, Sending, Taken, sending_of
from gateway.edge.session import Session
from gateway.edge.tasks import WaitedTask, WaitedTasks
from gateway.errors import BadRequest, EngineUnavailable
from tests.edge.marks import keyed, retry


class Clock:
    """Seconds, as the test has them."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


async def taken(session_id: str) -> Taken:
    """A call that came to nothing much."""
    return Taken(Session(session_id), ())


async def ended(session_id: str) -> WaitedTask[Taken]:
    """A call that has ended."""
    task = WaitedTasks().start(taken(session_id), may_cancel=lambda: True)
    await task.wait()
    return task


@pytest.mark.parametrize("headers", [retry(), keyed("k")])
async def test_the_window_counts_from_the_end_of_a_call(headers: Mapping[str, str]) -> None:
    """A call under way is known however long it takes."""
    clock, go = Clock(), asyncio.Event()
    retries = Retries(10.0, 100, clock)

    async def slow() -> Taken:
        await go.wait()
        return await taken("s")

    sending = sending_of("s", b"digest", headers)
    task = WaitedTasks().start(slow(), may_cancel=lambda: True)
    retries.add(replace(sending, count=0), task)
    clock.now_s = 100.0
    assert retries.find(replace(sending, count=1)) is task
    go.set()
    await task.wait()
    await asyncio.sleep(0)

    clock.now_s = 110.0
    assert retries.find(replace(sending, count=2)) is task
    clock.now_s = 110.1
    assert retries.find(replace(sending, count=3)) is None


async def test_the_oldest_calls_make_room() -> None:
    """In whatever scope they are."""
    retries = Retries(10.0, 2, Clock())
    tasks = [await ended("s") for _ in range(3)]
    for number, task in enumerate(tasks):
        retries.add(Sending(str(number), b"digest"), task)
        await asyncio.sleep(0)

    found = [retries.find(Sending(str(number), b"digest", count=1)) for number in range(3)]
    assert found == [None, *tasks[1:]]


async def test_a_deleted_session_answers_no_retry() -> None:
    """Be it named by its calls or not, and with a key or without; the others go on."""
    retries = Retries(10.0, 100, Clock())
    sent = [Sending(scope, b"digest", key) for scope in ("s", None, "t") for key in ("k", None)]
    for sending in sent:
        retries.add(sending, await ended(sending.scope or "s"))
    await asyncio.sleep(0)

    retries.forget("s")

    found = [retries.find(replace(sending, count=1)) is not None for sending in sent]
    assert found == [False] * 4 + [True] * 2


async def test_a_deleted_session_s_running_call_answers_no_retry() -> None:
    """Nor when it ends afterwards; nothing is kept of it."""
    retries, go = Retries(10.0, 100, Clock()), asyncio.Event()

    async def slow() -> Taken:
        await go.wait()
        return await taken("s")

    task = WaitedTasks().start(slow(), may_cancel=lambda: False)
    retries.add(Sending("s", b"digest"), task)
    retries.forget("s")
    go.set()
    await task.wait()
    await asyncio.sleep(0)

    assert retries.find(Sending("s", b"digest", count=1)) is None
    assert not retries._scopes
    assert not retries._ended
    assert not retries._led


async def test_of_a_call_that_failed_only_the_fact_is_kept() -> None:
    """Its error holds on to the whole request, which can be large."""

    class Request:
        """Something large."""

    retries, kept = Retries(10.0, 100, Clock()), []

    async def fail() -> Taken:
        request = Request()
        kept.append(weakref.ref(request))
        raise EngineUnavailable("no")

    retries.add(Sending("s", b"digest"), WaitedTasks().start(fail(), may_cancel=lambda: True))
    await asyncio.sleep(0.01)
    gc.collect()

    assert [reference() for reference in kept] == [None]
    retries.add(Sending("s", b"digest"), await ended("s"))
    assert retries.find(Sending("s", b"digest", count=1)) is None  # sampled, for the one that failed


async def test_nothing_is_kept_beyond_the_window() -> None:
    """A gateway that runs for months does not grow with its sessions."""
    clock = Clock()
    retries = Retries(10.0, 100, clock)
    for number in range(3):
        for key in ("k", None):
            retries.add(Sending(str(number), b"digest", key), await ended(str(number)))
    await asyncio.sleep(0)
    clock.now_s = 11.0

    assert retries.find(Sending("0", b"digest", count=1)) is None
    assert not retries._scopes
    assert not retries._ended
    assert not retries._led


async def test_a_key_whose_call_failed_belongs_to_the_next_body() -> None:
    """Of a call that nobody was told of, nothing is promised."""
    retries = Retries(10.0, 100, Clock())

    async def fail() -> Taken:
        raise EngineUnavailable("no")

    task = WaitedTasks().start(fail(), may_cancel=lambda: True)
    retries.add(Sending("s", b"one", "k"), task)
    await asyncio.gather(task.wait(), return_exceptions=True)

    assert retries.find(Sending("s", b"two", "k")) is None
    other = await ended("s")
    retries.add(Sending("s", b"two", "k"), other)
    assert retries.find(Sending("s", b"two", "k")) is other
    with pytest.raises(BadRequest, match="another body"):
        retries.find(Sending("s", b"one", "k"))


@pytest.mark.process
async def test_finding_and_forgetting_are_cheap_among_many_equal_calls() -> None:
    """A look at a call costs little, and to forget a session costs nothing for the calls of others."""
    retries = Retries(900, 8192, Clock())
    for number in range(8192):
        retries.add(Sending(None, b"digest"), await ended(f"s{number}"))
    await asyncio.sleep(0)

    def seconds(call: Callable[[], object]) -> float:
        began_s = time.perf_counter()
        call()
        return time.perf_counter() - began_s

    one_look_s = seconds(lambda: [sum(range(20)) for _ in range(8192)])
    counts = count(1)
    assert (
        min(seconds(lambda: retries.find(Sending(None, b"digest", count=next(counts)))) for _ in range(3))
        < 20 * one_look_s
    )
    assert min(seconds(lambda: retries.forget("unknown")) for _ in range(3)) < one_look_s / 10

    for number in range(8192):
        retries.forget(f"s{number}")
    assert not retries._scopes
    assert not retries._ended
    assert not retries._led
