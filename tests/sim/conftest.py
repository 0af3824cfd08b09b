"""A driver for the simulated engine, over real sockets."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import orjson
import pytest
from aiohttp import ClientResponse, web
from aiohttp.test_utils import TestClient, TestServer

from gateway.sim import JOURNAL, create_sim

GENERATE = "/inference/v1/generate"


class Driver:
    """A client of one sim; a body made by `ask` goes in, the parsed answer comes out."""

    def __init__(self, http: TestClient[web.Request, web.Application]) -> None:
        self.http = http
        self.log = http.app[JOURNAL]

    @staticmethod
    def ask(script=None, *, stream=False, **params):
        """A request body; `script` is what the engine should emit, `params` its sampling parameters."""
        extra = {} if script is None else {"extra_args": {"script": script}}
        return {"token_ids": [1, 2, 3], "sampling_params": {"logprobs": 1, **extra, **params}, "stream": stream}

    async def post(self, body, **how) -> ClientResponse:
        """The response to `body`, whatever its status."""
        return await self.http.post(GENERATE, json=body, **how)

    async def payloads(self, body) -> list[bytes]:
        """The data of every event of a stream, in order."""
        response = await self.post(body)
        assert response.status == 200
        assert response.headers["Content-Type"] == "text/event-stream; charset=utf-8"
        *events, rest = (await response.read()).split(b"\n\n")
        assert rest == b""
        return [event.removeprefix(b"data: ") for event in events]

    async def chunks(self, body):
        """The events of a stream that ends in [DONE], parsed."""
        *events, done = await self.payloads(body)
        assert done == b"[DONE]"
        return [orjson.loads(event) for event in events]

    async def whole(self, body):
        """The one choice of a non-stream answer."""
        return (await (await self.post(body)).json())["choices"][0]

    async def choices(self, body):
        """The choice of every event of a stream, or the one choice of a whole answer."""
        return (
            [event["choices"][0] for event in await self.chunks(body)] if body["stream"] else [await self.whole(body)]
        )

    async def get(self, path: str):
        """The JSON at `path`."""
        return await (await self.http.get(path)).json()

    async def metrics(self) -> str:
        """The text of the metrics route."""
        return await (await self.http.get("/metrics")).text()

    async def inject(self, kind: str, **how: int | str) -> int:
        """Ask for a fault over HTTP; the status of the reply."""
        return (await self.http.post("/sim/faults", json={"kind": kind, **how})).status


async def eventually(holds) -> None:
    """Wait until `holds`, for two seconds at most."""
    async with asyncio.timeout(2):
        while not holds():
            await asyncio.sleep(0.005)


@pytest.fixture
async def start() -> AsyncIterator[Callable[..., Awaitable[Driver]]]:
    """Start a sim on a real socket; its settings are those of `create_sim`."""
    clients = []

    async def start_one(**settings) -> Driver:
        client = TestClient(TestServer(create_sim(**settings)))
        await client.start_server()
        clients.append(client)
        return Driver(client)

    yield start_one
    for client in clients:
        await client.close()
