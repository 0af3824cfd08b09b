"""Where tasks stand."""

import asyncio

from tests.chaos.whereabouts import whereabouts


async def test_tasks_are_told_with_all_that_they_await() -> None:
    """Those at the same place together."""
    over = asyncio.Event()

    async def inner() -> None:
        await over.wait()

    async def outer() -> None:
        await inner()

    async with asyncio.TaskGroup() as group:
        for _ in range(2):
            group.create_task(outer())
        await asyncio.sleep(0)
        first, *_ = whereabouts()
        over.set()

    assert first.startswith("2 × ")
    assert "outer" in first.partition(" > ")[0]
    assert "inner" in first
    assert "Event.wait" in first
