"""An application served to this machine alone, for commands that bring their own."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiohttp import web

_FAREWELL_S = 0.5


@asynccontextmanager
async def served(app: web.Application) -> AsyncIterator[str]:
    """Serve on a free port of loopback until the end of the block; the URL. Calls that still run then are cancelled."""
    runner = web.AppRunner(app, handler_cancellation=True, access_log=None, shutdown_timeout=_FAREWELL_S)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        yield "http://{}:{}".format(*runner.addresses[0][:2])
    finally:
        await runner.cleanup()
