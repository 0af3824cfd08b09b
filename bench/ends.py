"""Both ends of a gateway in a process of their own, which cost next to nothing: an engine, and those who read streams.

The engine says one token over and over, in events as vLLM 0.32 writes them, to all who ask it at once and at one pace.
It says how many tokens by as many marks in the event's id, and the token's own text is that mark, so that readers can
count tokens without parsing, behind a gateway and behind a mere relay alike.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import cast

import orjson
import uvloop

MARK = "~"
_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: %s\r\n"
_MODELS = orjson.dumps({"data": [{"id": "sim", "max_model_len": 1 << 20}], "version": "0.32.0"})


@dataclass(frozen=True, slots=True)
class Emission:
    """What the engine says to everybody."""

    tokens: int
    interval_tokens: int
    """How many tokens an event holds."""
    token_s: float
    """From one token to the next."""


def event(token_id: int, count: int) -> bytes:
    """One event of `count` tokens, as a chunk of an HTTP body."""
    named = {"token_id": token_id, "logprob": -0.5, "rank": 1}
    content = [{**named, "top_logprobs": [named]}] * count
    reasons = dict.fromkeys(("finish_reason", "stop_reason", "weight_versions", "routed_experts", "sampling_mask"))
    choice = {"index": 0, **reasons, "token_ids": [token_id] * count, "logprobs": {"content": content}}
    body = {
        "request_id": "generate-tokens-" + MARK * count,
        "output_mode": "tokens",
        "choices": [choice],
        "usage": None,
    }
    data = b"data: " + orjson.dumps(body) + b"\n\n"
    return b"%x\r\n%s\r\n" % (len(data), data)


class Ends:
    """What the engine and the readers have in common."""

    def __init__(self, token_id: int) -> None:
        self.token_id = token_id
        self.asked: set[asyncio.Transport] = set()
        """Connections over which the engine is answering."""
        self.reading: set[asyncio.Transport] = set()
        self.tokens = 0
        """Tokens that readers have got."""
        self.events = 0
        """And the events in which they came."""
        self.moved = asyncio.Event()
        """Set whenever something has changed."""

    async def open(self, port: int, path: str, count: int) -> None:
        """Let `count` readers ask, each at a path of its own; until each has read a token."""
        self.tokens = 0
        loop = asyncio.get_running_loop()
        for number in range(count):
            transport, _ = await loop.create_connection(lambda: _Reading(self), "127.0.0.1", port)
            body = orjson.dumps({"stream": True, "messages": [{"role": "user", "content": f"Hello {number}?"}]})
            head = f"POST {path.format(number)} HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"
            transport.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        await self._until(lambda: self.tokens == count)

    async def emit(self, emission: Emission) -> float:
        """Say it to all; until all of it has been read. In how many events a token it came."""
        said = event(self.token_id, emission.interval_tokens)
        due = self.tokens + len(self.asked) * emission.tokens
        self.events, before, loop = 0, self.tokens, asyncio.get_running_loop()
        next_s = loop.time()
        for _ in range(emission.tokens // emission.interval_tokens):
            for transport in self.asked:
                transport.write(said)
            next_s += emission.token_s * emission.interval_tokens
            await asyncio.sleep(max(0.0, next_s - loop.time()))
        await self._until(lambda: self.tokens == due)
        return self.events / (self.tokens - before)

    async def close(self) -> None:
        """Let all readers hang up; until the engine has noticed."""
        for transport in [*self.reading]:
            transport.close()
        await self._until(lambda: not (self.asked or self.reading))

    async def _until(self, holds: Callable[[], bool]) -> None:
        while not holds():
            if not (self.asked or self.reading):
                raise ConnectionError("everybody has lost the connection")
            self.moved.clear()
            await self.moved.wait()


@dataclass
class _Reading(asyncio.Protocol):
    """One reader's connection."""

    ends: Ends
    transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self.ends.reading.add(self.transport)

    def data_received(self, data: bytes) -> None:
        self.ends.tokens += data.count(MARK.encode())
        self.ends.events += data.count(b"data: ")
        self.ends.moved.set()

    def connection_lost(self, _error: Exception | None) -> None:
        assert self.transport is not None
        self.ends.reading.discard(self.transport)
        self.ends.moved.set()


@dataclass
class _Asked(asyncio.Protocol):
    """One connection to the engine."""

    ends: Ends
    transport: asyncio.Transport | None = None
    received: bytearray = field(default_factory=bytearray)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        assert self.transport is not None
        self.received += data
        if self.received.startswith(b"GET"):
            if self.received.endswith(b"\r\n\r\n"):
                sized = _HEAD % b"application/json" + b"Content-Length: %d\r\n\r\n%s" % (len(_MODELS), _MODELS)
                self.transport.write(sized)
                self.received.clear()
        elif self.received.endswith(b"}") and self.transport not in self.ends.asked:
            self.transport.write(_HEAD % b"text/event-stream" + b"Transfer-Encoding: chunked\r\n\r\n")
            self.transport.write(event(self.ends.token_id, 1))
            self.ends.asked.add(self.transport)

    def connection_lost(self, _error: Exception | None) -> None:
        assert self.transport is not None
        self.ends.asked.discard(self.transport)
        self.ends.moved.set()


class RemoteEnds:
    """The same from another process; `url` is the engine's."""

    def __init__(self, token_id: int) -> None:
        self._pipe, there = get_context("spawn").Pipe()
        self._process = get_context("spawn").Process(target=_run, args=(there, token_id), daemon=True)
        self._process.start()
        there.close()  # so that the end of either process is the end of the pipe
        self.url: str = self._pipe.recv()

    async def call(self, method: Callable[..., Awaitable[object]], *args: object) -> object:
        """One of the methods of `Ends`, there."""
        self._pipe.send((method.__name__, args))
        return cast("object", await asyncio.to_thread(self._pipe.recv))

    def end(self) -> None:
        """End that process."""
        self._process.terminate()
        self._process.join()


def _run(pipe: Connection, token_id: int) -> None:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_serve(pipe, token_id))


async def _serve(pipe: Connection, token_id: int) -> None:
    loop, ends = asyncio.get_running_loop(), Ends(token_id)
    server = await loop.create_server(lambda: _Asked(ends), "127.0.0.1", 0, backlog=4096)
    pipe.send(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")
    while True:
        name, args = await asyncio.to_thread(pipe.recv)
        pipe.send(await getattr(ends, name)(*args))
