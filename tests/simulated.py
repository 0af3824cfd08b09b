"""A simulated engine on a thread of its own, for code that waits."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from aiohttp import web
from aiohttp.test_utils import TestServer

from gateway.sim import create_sim


@contextmanager
def simulated(**settings: Any) -> Iterator[tuple[str, web.Application]]:
    """Its URL and the sim, whose settings are those of `create_sim`; it serves until the end of the block."""
    loop, app = asyncio.new_event_loop(), create_sim(**settings)
    server = TestServer(app)
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        asyncio.run_coroutine_threadsafe(server.start_server(), loop).result(10)
        yield str(server.make_url("")).rstrip("/"), app
    finally:
        asyncio.run_coroutine_threadsafe(server.close(), loop).result(10)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
