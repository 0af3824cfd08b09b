"""A gateway in this process, on an event loop and a thread of its own."""

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import uvloop
from aiohttp import web

from gateway.client.client import GatewayClient

if TYPE_CHECKING:
    from gateway.edge.store import Store
    from gateway.render.protocol import Renderer
    from gateway.settings import Settings

_FAREWELL_S = 1.5
"""When turns have ended: how long clients may take to read the last answers; aiohttp waits so long twice."""


@contextmanager
def serve_in_thread(
    settings: "Settings | None" = None,
    *,
    renderer: "Renderer | None" = None,
    store: "Store | None" = None,
    **named: Any,  # what each may hold is for `Settings` to say
) -> Iterator[GatewayClient]:
    """A gateway that serves from a thread of this process, with a renderer or a store of your own: a client of it.

    Settings come as one object or by name; the port is a free one unless they name one. At the end of the block turns
    in flight end first, for up to their `drain_timeout_s`; then threads and sockets are gone.

    Raises:
        ConfigError: the application cannot be made.
        OSError: the address cannot be listened on.
        TypeError: settings were given in both ways.
    """
    from gateway.settings import Settings  # with what it brings, nothing for who only wants a client

    if settings is not None and named:
        raise TypeError(f"settings come as an object or by name, not both: leave out {', '.join(named)}")
    chosen = settings if settings is not None else Settings(**named)
    serving = _Serving(chosen, renderer, store)
    thread = threading.Thread(target=serving.run, name="gateway")
    thread.start()
    try:
        url = serving.url.result()
        admin_key, agent_key = chosen.admin_key.get_secret_value(), chosen.agent_key.get_secret_value()
        with GatewayClient(url, admin_key, agent_key) as gateway:
            yield gateway
    finally:
        serving.stop()
        thread.join()
    serving.ended.result()


class _Serving:
    """What the thread does, and how others reach it."""

    def __init__(self, settings: "Settings", renderer: "Renderer | None", store: "Store | None") -> None:
        self._settings, self._renderer, self._store = settings, renderer, store
        self._loop = uvloop.new_event_loop()
        self._stopped = asyncio.Event()
        self.url: Future[str] = Future()
        """Where it serves; or why it does not."""
        self.ended: Future[None] = Future()
        """That it ended; or why it did not end well."""

    def run(self) -> None:
        """Serve until stopped."""
        try:
            with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
                runner.run(self._serve())
        except BaseException as error:  # noqa: BLE001  # whoever waits for the thread is told
            (self.ended if self.url.done() else self.url).set_exception(error)
        if not self.ended.done():
            self.ended.set_result(None)

    def stop(self) -> None:
        """Have it end, from any thread; it may not have begun yet, or have ended."""
        with suppress(RuntimeError):  # its loop is closed
            self._loop.call_soon_threadsafe(self._stopped.set)

    async def _serve(self) -> None:
        from gateway.app import create_app  # seconds, for those who serve

        settings = self._settings
        app = create_app(settings, self._renderer, store=self._store)
        runner = web.AppRunner(app, handler_cancellation=True, access_log=None, shutdown_timeout=_FAREWELL_S)
        await runner.setup()
        try:
            port = settings.port if "port" in settings.model_fields_set else 0
            await web.TCPSite(runner, settings.host, port).start()
            host, bound = runner.addresses[0][:2]
            self.url.set_result(f"http://{f'[{host}]' if ':' in host else host}:{bound}")
            await self._stopped.wait()
        finally:
            await runner.cleanup()
