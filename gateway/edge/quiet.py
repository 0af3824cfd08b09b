"""Calls that nobody waits for any more, and that are let go on until an engine has said its first word.

Where prompts are prefilled on one engine and answered by another, an abort while the KV cache is on its way does harm.

Mutable state: the calls that were left.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractContextManager, ExitStack, nullcontext


class Quiet:
    """Keeps calls open for `quiet_s` at most after they were left, unless their first event has come."""

    def __init__(self, quiet_s: float) -> None:
        self.quiet_s = quiet_s
        self.beside: Callable[[], AbstractContextManager[None]] = nullcontext
        """Entered while a call that was left goes on, which is sampled beside turns."""
        self._left: set[asyncio.Task[None]] = set()

    async def first(self, events: AsyncGenerator[bytes]) -> bytes | None:
        """The first event of a call, or ``None`` if it ends before; who is cancelled meanwhile leaves the call here."""

        async def read() -> bytes | None:
            return await anext(events, None)

        reading = asyncio.create_task(read())
        try:
            return await asyncio.shield(reading)
        except asyncio.CancelledError:
            left = ExitStack()
            left.enter_context(self.beside())
            staying = asyncio.create_task(self._stay(reading, events))
            self._left.add(staying)
            staying.add_done_callback(self._left.discard)
            staying.add_done_callback(lambda _: left.close())
            raise

    async def _stay(self, reading: "asyncio.Task[bytes | None]", events: AsyncGenerator[bytes]) -> None:
        try:
            await asyncio.wait([reading], timeout=self.quiet_s)
        finally:
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)
            await events.aclose()

    async def close(self) -> None:
        """End them now."""
        for task in self._left:
            task.cancel()
        await asyncio.gather(*self._left, return_exceptions=True)
