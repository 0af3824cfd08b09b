"""An engine of a few lines, whose connections end as they are told; and the gateway's side of it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager

import orjson

from gateway.edge.engine import Engine
from tests.edge.house import IM_END, Json, until

BODY = orjson.dumps({"token_ids": [1, 2], "sampling_params": {"logprobs": 1, "max_tokens": 9}, "stream": True})
MODELS = orjson.dumps({"data": [{"id": "raw", "max_model_len": 4096}]})
CHOICE: Json = {
    "token_ids": [IM_END],
    "logprobs": {"content": [{"token_id": IM_END, "logprob": -0.5}]},
    "finish_reason": "stop",
}
EVENTS = b"data: " + orjson.dumps({"choices": [CHOICE]}) + b"\n\ndata: [DONE]\n\n"


class RawServer:
    """An HTTP server of a few lines, whose every connection ends as it is told.

    `serves` requests are answered on each connection; at the next one it is closed without a word.
    With `hangs_up`, it is closed right after the last answer instead.
    """

    def __init__(self, *, serves: int = 10**9, hangs_up: bool = False, answer: bytes | None = None) -> None:
        self.url = ""
        self.connections = 0
        self.requests: list[bytes] = []
        self.serves = serves
        self.hangs_up = hangs_up
        self.answer = answer
        self.meeting: asyncio.Barrier | None = None
        self.closed = 0
        self.stale = 0
        """How many of its connections, the first ones, are closed at their next request: as by a restart."""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection."""
        self.connections += 1
        number = self.connections
        try:
            for served in range(10**9):
                head = (await reader.readuntil(b"\r\n\r\n")).lower()
                length = head.partition(b"content-length:")[2].partition(b"\r\n")[0]
                await reader.readexactly(int(length or 0))
                self.requests.append(head.split()[1])
                if served == self.serves or number <= self.stale:
                    break
                if self.meeting is not None:
                    await self.meeting.wait()
                writer.write(self.answer or response(head))
                await writer.drain()
                if self.hangs_up and served + 1 == self.serves:
                    break
        except asyncio.IncompleteReadError:
            pass
        finally:
            self.closed += 1
            writer.close()

    @property
    def generated(self) -> int:
        """How often it was asked to generate."""
        return self.requests.count(b"/inference/v1/generate")


def response(head: bytes, status: str = "200 OK") -> bytes:
    """The answer to a request, of a length that is known, so that the connection may go on."""
    streams = b"generate" in head.partition(b"\r\n")[0]
    body = EVENTS if streams else MODELS
    kind = "text/event-stream" if streams else "application/json"
    return f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


@asynccontextmanager
async def listening(raw: RawServer) -> AsyncIterator[RawServer]:
    """A raw server on a port of its own."""
    server = await asyncio.start_server(raw.serve, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    raw.url = f"http://{host}:{port}"
    try:
        yield raw
    finally:
        server.close()
        await until(lambda: raw.closed == raw.connections)


@asynccontextmanager
async def opened(url: str, *, key: str = "") -> AsyncIterator[Engine]:
    """An engine with its pool."""
    engine = Engine(url, key=key)
    try:
        yield engine
    finally:
        await engine.close()


async def payloads(engine: Engine) -> list[bytes]:
    """All that one call to generate says."""
    async with aclosing(engine.generate(BODY, request_id="r")) as events:
        return [payload async for payload in events]
