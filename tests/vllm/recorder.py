"""A reverse proxy before an engine that remembers what the engine was asked and what it answered."""

import asyncio
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Thread
from typing import Any

import aiohttp
from aiohttp import web
from yarl import URL

GENERATE = "/inference/v1/generate"
HOP_BY_HOP = frozenset({"host", "connection", "keep-alive", "transfer-encoding"})
START_STOP_TIMEOUT_S = 10.0


@dataclass(slots=True)
class Exchange:
    """One generate request and its streamed answer, so far as it has come."""

    body: dict[str, Any]
    """The request as JSON."""
    request_id: str = ""
    """What the gateway calls it: the client's own id where it has sent one."""
    completion: list[int] = field(default_factory=list)
    """Ids the engine returned; shape ``(C,)``."""
    logprobs: list[float] = field(default_factory=list)
    """What the engine said of each returned id; shape ``(C,)``, nats."""
    finish_reason: str | None = None
    """``None`` until the engine gives one."""
    unread: bytes = field(default=b"", repr=False)
    """The beginning of a line whose end has not come yet."""

    @property
    def prompt(self) -> list[int]:
        """Ids the engine was given; shape ``(P,)``."""
        return list(self.body["token_ids"])

    def feed(self, chunk: bytes) -> None:
        """Take the next bytes of the event stream."""
        *lines, self.unread = (self.unread + chunk).split(b"\n")
        for line in lines:
            if line.startswith(b"data: {"):
                self._take(json.loads(line.removeprefix(b"data: ")))

    def _take(self, event: dict[str, Any]) -> None:
        for choice in event.get("choices", ()):
            self.completion += choice["token_ids"] or []
            self.logprobs += [entry["logprob"] for entry in (choice["logprobs"] or {}).get("content") or ()]
            self.finish_reason = choice["finish_reason"] or self.finish_reason


class Recorder:
    """Passes every request on to `upstream` and keeps the exchanges of ``POST /inference/v1/generate``, but for probes.

    Bytes go through as they come, and the engine loses its client as soon as the proxy loses its own.
    """

    def __init__(self, upstream: str) -> None:
        self.url = ""
        """Where to reach it; set by `start`."""
        self.exchanges: list[Exchange] = []
        """In the order in which the requests came."""
        self._upstream = upstream

    async def start(self) -> None:
        """Listen on a free loopback port."""
        # vLLM drops idle connections after 5 s; a connection for each request cannot lose that race.
        self._client = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, force_close=True),
            timeout=aiohttp.ClientTimeout(total=None),
            auto_decompress=False,
        )
        app = web.Application(client_max_size=1 << 26)
        app.router.add_route("*", "/{path:.*}", self._forward)
        self._runner = web.AppRunner(app, handler_cancellation=True, access_log=None, shutdown_timeout=1.0)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        host, port = self._runner.addresses[0][:2]
        self.url = f"http://{host}:{port}"

    async def stop(self) -> None:
        """Close every connection on both sides."""
        await self._runner.cleanup()
        await self._client.close()

    async def _forward(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        exchange = self._record(request, body)
        target = URL(self._upstream + request.raw_path, encoded=True)
        async with self._client.request(request.method, target, headers=end_to_end(request), data=body) as upstream:
            response = web.StreamResponse(status=upstream.status, headers=end_to_end(upstream))
            await response.prepare(request)
            async for chunk in upstream.content.iter_any():
                if exchange:
                    exchange.feed(chunk)
                await response.write(chunk)
            await response.write_eof()
            return response

    def _record(self, request: web.Request, body: bytes) -> Exchange | None:
        request_id = request.headers.get("X-Request-Id", "")
        if (request.method, request.path) != ("POST", GENERATE) or request_id.startswith("probe-"):
            return None
        self.exchanges.append(Exchange(json.loads(body), request_id))
        return self.exchanges[-1]


def end_to_end(message: web.Request | aiohttp.ClientResponse) -> dict[str, str]:
    """The headers of `message` that are meant for the other end."""
    return {name: value for name, value in message.headers.items() if name.lower() not in HOP_BY_HOP}


@contextmanager
def recording(upstream: str) -> Iterator[Recorder]:
    """Run a `Recorder` in a thread of its own, so that a blocking test cannot hold it up."""
    loop, recorder = asyncio.new_event_loop(), Recorder(upstream)
    thread = Thread(target=loop.run_forever, name="recorder")
    thread.start()
    try:
        asyncio.run_coroutine_threadsafe(recorder.start(), loop).result(START_STOP_TIMEOUT_S)
        try:
            yield recorder
        finally:
            asyncio.run_coroutine_threadsafe(recorder.stop(), loop).result(START_STOP_TIMEOUT_S)
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
