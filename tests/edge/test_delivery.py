"""An answer has left when the kernel has all of it, and a client that takes nothing is hung up on."""

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
import uvloop
from aiohttp import web

from gateway.edge.delivery import ClientLeft, conclude, unsent_bytes, watched
from tests.edge.house import NARROW_BYTES, serving, until

STALL_S = 0.4
SIP_BYTES = 50_000
END = b"."
REQUEST = b"GET / HTTP/1.1\r\nHost: here\r\n\r\n"
LOOPS: dict[str, Any] = {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}

Scene = Callable[[], Awaitable[None]]


@pytest.fixture(params=LOOPS)
def play(request: pytest.FixtureRequest) -> Callable[[Scene], None]:
    """Play a scene on an event loop of each kind."""

    def played(scene: Scene) -> None:
        with asyncio.Runner(debug=True, loop_factory=LOOPS[request.param]) as runner:
            runner.run(scene())  # type: ignore[arg-type]  # a coroutine function's

    return played


class Answering:
    """A server of one long answer, and what became of each."""

    def __init__(self, size_bytes: int) -> None:
        self.body = b"x" * size_bytes + END
        self.outcomes: list[str] = []
        self.request: web.Request

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """The answer, watched, and seen off."""
        self.request = request
        with watched(request, STALL_S):
            response = web.Response(body=self.body)
            await response.prepare(request)
            try:
                await conclude(request, response)
            except (ClientLeft, asyncio.CancelledError):
                self.outcomes.append("lost")
                raise
            self.outcomes.append("left")
            return response


@asynccontextmanager
async def asked(server: Answering, *, narrow: bool) -> AsyncIterator[socket.socket]:
    """A client's socket on which it has asked; if `narrow`, the kernels hold next to nothing for it."""
    app = web.Application()
    app.add_routes([web.get("/", server.answer)])
    async with serving(app, narrow=narrow) as listening:
        with socket.socket() as client:
            if narrow:
                client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, NARROW_BYTES)
            client.setblocking(False)
            loop = asyncio.get_running_loop()
            await loop.sock_connect(client, (listening.host, listening.port))
            await loop.sock_sendall(client, REQUEST)
            yield client


async def taken(client: socket.socket, *, every_s: float = 0.0) -> int:
    """Read one answer, with a pause after each sip; how long it was."""
    read_bytes, data = 0, b""
    while not data.endswith(END):
        data = await asyncio.get_running_loop().sock_recv(client, SIP_BYTES)
        assert data
        read_bytes += len(data)
        await asyncio.sleep(every_s)
    return read_bytes


def test_an_answer_has_left_only_when_the_kernel_has_all_of_it(play: Callable[[Scene], None]) -> None:
    """Though it is less than a transport holds without making anybody wait; and the connection is as it was before."""

    async def scene() -> None:
        server = Answering(50_000)
        async with asked(server, narrow=True) as client:
            await until(lambda: hasattr(server, "request") and unsent_bytes(server.request))
            await asyncio.sleep(STALL_S / 4)
            assert server.outcomes == []
            assert await taken(client) > 50_000
            await until(lambda: server.outcomes == ["left"])
            transport = server.request.transport
            assert transport is not None
            assert transport.get_write_buffer_limits()[1] == 64 * 1024

            await asyncio.get_running_loop().sock_sendall(client, REQUEST)
            assert await taken(client) > 50_000
            await until(lambda: server.outcomes == ["left", "left"])

    play(scene)


def test_a_client_that_takes_nothing_is_hung_up_on(play: Callable[[Scene], None]) -> None:
    """Its answer is lost, and is known to be."""

    async def scene() -> None:
        server = Answering(50_000)
        async with asked(server, narrow=True):
            await until(lambda: server.outcomes == ["lost"], within_s=5 * STALL_S)
            assert unsent_bytes(server.request) == 0

    play(scene)


@pytest.mark.process
def test_a_client_that_reads_slowly_but_steadily_gets_everything(play: Callable[[Scene], None]) -> None:
    """In kernels that could hold megabytes for it, too."""

    async def scene() -> None:
        server = Answering(8_000_000)
        async with asked(server, narrow=False) as client:
            assert await taken(client, every_s=0.015) > 8_000_000
            await until(lambda: server.outcomes == ["left"])

    play(scene)
