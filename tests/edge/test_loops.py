"""What a gateway does unasked goes on, whatever fails, and ends with it."""

import asyncio

import pytest
from structlog.testing import capture_logs

from gateway.edge.loops import looping
from tests.edge.house import until


async def test_a_loop_that_fails_is_logged_and_begun_again_and_the_others_go_on() -> None:
    """Nobody else notices."""
    begun, steady, forever = 0, 0, asyncio.Event()

    async def failing() -> None:
        nonlocal begun
        begun += 1
        if begun < 3:
            raise KeyError("swordfish")
        await forever.wait()

    async def going_on() -> None:
        nonlocal steady
        steady += 1
        await forever.wait()

    with capture_logs() as lines:
        async with looping([failing, going_on], rest_s=0):
            await until(lambda: begun == 3)

    assert steady == 1
    assert [line["log_level"] for line in lines] == ["error", "error"]


async def test_a_loop_that_comes_to_its_end_is_not_begun_again() -> None:
    """As the one that waits for the drain."""
    begun = 0

    async def ending() -> None:
        nonlocal begun
        begun += 1

    async with looping([ending], rest_s=0):
        await until(lambda: begun)
        await asyncio.sleep(0.01)

    assert begun == 1


async def test_what_fails_inside_ends_all_loops() -> None:
    """No task is left behind."""
    before, forever = asyncio.all_tasks(), asyncio.Event()

    async def waiting() -> None:
        await forever.wait()

    with pytest.raises(KeyError):
        async with looping([waiting, waiting]):
            raise KeyError("swordfish")

    assert asyncio.all_tasks() == before
