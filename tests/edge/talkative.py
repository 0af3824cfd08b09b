"""A renderer that makes much of each id, and a client that takes little of it."""

import asyncio
import socket
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from types import MappingProxyType

import orjson

from gateway.render.protocol import MessageDicts, ParsedCall, Renderer, StreamParser
from tests.edge.house import HELLO, NARROW_BYTES, House

CHARS = 256
"""What one id says."""


@dataclass(frozen=True, slots=True)
class Text:
    """A parse, or more of one."""

    content: str
    reasoning_content: None = None
    tool_calls: Sequence[ParsedCall] = ()


class Talkative:
    """Renders as another renderer does, and reads `CHARS` characters out of each id."""

    def __init__(self, renderer: Renderer) -> None:
        self.render_ids = renderer.render_ids
        self.get_stop_token_ids = renderer.get_stop_token_ids
        self.bridge_to_next_turn = renderer.bridge_to_next_turn

    def parse_response(self, token_ids: list[int]) -> Text:
        """The whole text."""
        stops = self.get_stop_token_ids()
        return Text("".join(f"{token_id:>{CHARS}}" for token_id in token_ids if token_id not in stops))

    def stream_parser(self, tools: MessageDicts | None) -> StreamParser:
        """One that tells everything at once."""
        return _Parser(self)


class _Parser:
    def __init__(self, renderer: Talkative) -> None:
        self._renderer = renderer
        self._ids: list[int] = []

    def feed(self, token_ids: Sequence[int]) -> list[Text]:
        self._ids += token_ids
        return [self._renderer.parse_response([*token_ids])]

    def finish(self) -> Text:
        return self._renderer.parse_response(self._ids)


class SlowClient:
    """A client on a socket of its own, whose kernel takes next to nothing for it."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self.read = bytearray()

    async def take(self, most_bytes: int) -> bool:
        """Read so much at most; whether there was something."""
        data = await asyncio.get_running_loop().sock_recv(self._connection, most_bytes)
        self.read += data
        return bool(data)

    async def take_all(self) -> None:
        """Read until there is nothing more."""
        while await self.take(1 << 20):
            pass

    async def sip(self, every_s: float) -> None:
        """Read one byte at a time, for ever."""
        while True:
            await self.take(1)
            await asyncio.sleep(every_s)


@asynccontextmanager
async def slow(
    house: House,
    session: str,
    script: Sequence[int] | None,
    headers: Mapping[str, str] = MappingProxyType({}),
    **fields: object,
) -> AsyncIterator[SlowClient]:
    """A slow client that has asked for a stream; it hangs up at the end of the block."""
    scripted = {} if script is None else {"vllm_xargs": {"script": list(script)}}
    body = orjson.dumps({"messages": HELLO, "stream": True, **scripted, **fields})
    url = house.http.make_url(f"/sessions/{session}/v1/chat/completions")
    lines = [f"POST {url.path} HTTP/1.1", f"Host: {url.authority}", f"Content-Length: {len(body)}"]
    lines += [f"{name}: {value}" for name, value in ({"Content-Type": "application/json"} | dict(headers)).items()]
    with socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, NARROW_BYTES)
        connection.setblocking(False)
        loop = asyncio.get_running_loop()
        await loop.sock_connect(connection, (url.host, url.port))
        await loop.sock_sendall(connection, "\r\n".join([*lines, "", ""]).encode() + body)
        yield SlowClient(connection)
