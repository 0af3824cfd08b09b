"""What a gateway does unasked: loops that go on beside all calls, each in a task of its own."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager

import structlog

from gateway.edge.log import where

log = structlog.get_logger()

Loop = Callable[[], Awaitable[None]]

_REST_S = 1.0
"""How long a loop that failed rests, so that one that cannot do its work does not fill the log."""


@asynccontextmanager
async def looping(loops: Iterable[Loop], *, rest_s: float = _REST_S) -> AsyncIterator[None]:
    """Have all of them run meanwhile.

    One that fails is logged and begun again. The others do not notice, and the gateway does not end: that would lose
    the turns that it holds, and what failed may well succeed the next time.
    """
    tasks = [asyncio.create_task(_kept_up(loop, rest_s)) for loop in loops]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _kept_up(loop: Loop, rest_s: float) -> None:
    while True:
        try:
            await loop()
        except Exception:
            log.exception("a loop failed, and is begun again", **where())
            await asyncio.sleep(rest_s)
        else:
            return
