"""An answer that is streamed: what a call says while it goes on, sent to one client as fast as that reads.

What waits for a client is bounded. Its text waits in the call's feed, which has room for so much and then makes the
call wait; what was taken from there waits in the socket, which is given more only when it has sent most of the rest.
"""

import asyncio
import math
from collections.abc import Awaitable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import perf_counter

from aiohttp import web

from gateway.edge.delivery import ClientLeft, conclude, transport_of, unsent_bytes
from gateway.edge.feed import Feed, Reader
from gateway.wire.dialect import AnswerStream
from gateway.wire.pieces import PIECE_CHARS, joined
from gateway.wire.sse import KEEP_ALIVE

_HEADERS = {
    "Content-Type": "text/event-stream; charset=utf-8",
    "Cache-Control": "no-cache",
    "X-Accel-Buffering": "no",  # or nginx would gather a few kilobytes first
}
SOCKET_BYTES = 160 * 1024
"""What may wait on its way to one client: `_HIGH_BYTES` in the transport, the 64 KiB that aiohttp writes before it
looks at them, one write more, and what the next one is made of."""
_HIGH_BYTES = 32 * 1024
_WRITE_BYTES = 32 * 1024
_MANY, _MANY_INTERVAL_S = 256, 0.05
"""Open streams from which on each is flushed every 50 ms. Where engines send every id alone (before 0.27) that saves a
third of the time; with eight ids an event there is little left to gather, see bench/streaming."""


@dataclass(eq=False)
class Streams:
    """The open streams of one application, and how they are served."""

    buffer_bytes: int
    """What may wait for one client, at least `SOCKET_BYTES` and some text."""
    stall_s: float
    keep_alive_s: float
    flush_interval_s: float | None = None
    """How long what is said is gathered before it is sent; ``None`` goes by how many streams are open."""
    _open: dict[Reader, web.Request] = field(default_factory=dict)

    @property
    def room_bytes(self) -> int:
        """How far the furthest reader of a feed may fall behind."""
        return self.buffer_bytes - SOCKET_BYTES

    @property
    def interval_s(self) -> float:
        """How long what is said is gathered now."""
        if self.flush_interval_s is not None:
            return self.flush_interval_s
        return 0.0 if len(self._open) < _MANY else _MANY_INTERVAL_S

    def buffered_bytes(self) -> list[int]:
        """What waits for each client, in its feed and in its transport. For one that joined late it may be much."""
        return [reader.behind_bytes + unsent_bytes(request) for reader, request in self._open.items()]

    @contextmanager
    def opened(self, request: web.Request, feed: Feed) -> Iterator[Reader]:
        """A client's reader of a feed, counted while it reads."""
        with Reader(feed) as reader:
            self._open[reader] = request
            try:
                yield reader
            finally:
                del self._open[reader]


class Stream:
    """One client's stream.

    Raises, in every method:
        ClientLeft: nobody reads it.
    """

    def __init__(self, request: web.Request, streams: Streams, headers: Mapping[str, str]) -> None:
        self.response = web.StreamResponse(headers={**_HEADERS, **headers})
        self.encode_s = 0.0
        """How long it took to write what was sent, but for the sending."""
        self._request = request
        self._streams = streams

    async def open(self) -> None:
        """Send the head. From now on a failure can only be said in the stream."""
        await self._sent(self.response.prepare(self._request))
        transport_of(self._request).set_write_buffer_limits(_HIGH_BYTES)

    async def hold(self, reader: Reader) -> None:
        """Send a comment, and one more whenever it has been silent for long, until the call begins or ends."""
        await self.send([KEEP_ALIVE])
        while not await reader.wait(self._streams.keep_alive_s):
            await self.send([KEEP_ALIVE])

    async def read(self, reader: Reader, answer: AnswerStream) -> None:
        """Send what is said until nothing more will be; a comment whenever it is silent for long."""
        clock, sent_s = asyncio.get_running_loop().time, -math.inf
        while True:
            if not await reader.wait(self._streams.keep_alive_s):
                await self.send([KEEP_ALIVE])
                continue
            early_s = sent_s + self._streams.interval_s - clock()
            if early_s > 0 and reader.behind_bytes < PIECE_CHARS:
                await reader.pause(early_s)
            if said := reader.take():
                await self.send(answer.say(joined(said)))
                sent_s = clock()
            elif reader.has_ended:
                return

    async def send(self, parts: Iterable[bytes]) -> None:
        """Send something, in few writes, each when what was sent before has mostly gone."""
        data = bytearray()
        for part in self._timed(parts):
            data += part
            while len(data) >= _WRITE_BYTES:
                await self._sent(self.response.write(bytes(data[:_WRITE_BYTES])))
                del data[:_WRITE_BYTES]
                await asyncio.sleep(0)  # of what is recorded there may be much, and nothing else gives others a turn
        if data:
            await self._sent(self.response.write(bytes(data)))

    def _timed(self, parts: Iterable[bytes]) -> Iterator[bytes]:
        making = iter(parts)
        while True:
            began_s = perf_counter()
            part = next(making, None)
            self.encode_s += perf_counter() - began_s
            if part is None:
                return
            yield part

    async def close(self) -> None:
        """Send the end, and see all of it off."""
        await conclude(self._request, self.response)

    async def _sent(self, sending: Awaitable[object]) -> None:
        try:
            await sending
        except ConnectionError:
            raise ClientLeft from None
