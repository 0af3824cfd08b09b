"""Both clients, spoken to alike: the asynchronous one on a loop of its own, each of its answers waited for."""

import asyncio
import inspect
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager
from typing import Any

from gateway.client import AsyncGatewayClient, AsyncSession, GatewayClient

KINDS = ("waiting", "awaited")


class Waiting:
    """Something asynchronous, whose methods wait."""

    def __init__(self, runner: asyncio.Runner, held: Any) -> None:
        self._runner = runner
        self._held = held

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._held, name)
        return (lambda *a, **k: self._value(found(*a, **k))) if callable(found) else found

    def _value(self, made: Any) -> Any:
        if inspect.isawaitable(made):
            made = self._run(made)
        if isinstance(made, AsyncSession):
            return Waiting(self._runner, made)
        if isinstance(made, AbstractAsyncContextManager):
            return self._entered(made)
        return iter(self._run(_listed(made))) if isinstance(made, AsyncIterator) else made

    @contextmanager
    def _entered(self, held: AbstractAsyncContextManager[Any]) -> Iterator[Any]:
        """Meanwhile the loop stands still, unless something is waited for."""
        value = self._run(held.__aenter__())
        try:
            yield value
        except BaseException as error:
            if not self._run(held.__aexit__(type(error), error, error.__traceback__)):
                raise
        else:
            self._run(held.__aexit__(None, None, None))

    def _run(self, awaited: Any) -> Any:
        async def waited() -> Any:
            return await awaited

        return self._runner.run(waited())


@contextmanager
def connected(kind: str, url: str, **options: Any) -> Iterator[Any]:
    """A client of a gateway."""
    if kind == "waiting":
        with GatewayClient(url, **options) as plain:
            yield plain
        return
    with asyncio.Runner() as runner:
        client = Waiting(runner, AsyncGatewayClient(url, **options))
        try:
            yield client
        finally:
            client.close()


def pass_time(client: Any, for_s: float) -> None:
    """Let time pass in which a client can do what it does by itself."""
    if isinstance(client, Waiting):
        client._run(asyncio.sleep(for_s))
    else:
        time.sleep(for_s)


async def _listed(items: AsyncIterator[Any]) -> list[Any]:
    return [item async for item in items]
