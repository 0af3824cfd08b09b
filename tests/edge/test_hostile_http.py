"""Requests that are hardly HTTP, or whose bodies never end: refused, and nothing is left behind."""

import asyncio
from contextlib import suppress

import orjson
import pytest

from tests.edge.house import House
from tests.edge.test_hostile import PATH, asks

HTTP = {
    "a header within a header": (b"X-Request-Id: a\r\n b: c\r\n", 400),
    "a bare line feed in a header": (b"X-Session-ID: a\nX-Evil: b\r\n", 400),
    "a zero byte in a header": (b"X-Session-ID: a\0b\r\n", 400),
    "a header of a megabyte": (b"X-Session-ID: " + b"a" * 1_000_000 + b"\r\n", 400),
    "two lengths": (b"Content-Length: 5\r\nContent-Length: 6\r\n", 400),
    "a length and chunks": (b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", 400),
    "a negative length": (b"Content-Length: -1\r\n", 400),
    "a length in words": (b"Content-Length: many\r\n", 400),
    "chunks that are none": (b"Transfer-Encoding: chunked\r\n\r\nzz\r\n", 400),
    "an encoding that nobody has": (b"Transfer-Encoding: nonsense\r\n", 400),
    "an expectation that nobody meets": (b"Expect: nonsense\r\nContent-Length: 2\r\n\r\n{}", 417),
}


@pytest.mark.parametrize(("head", "status"), HTTP.values(), ids=HTTP.keys())
async def test_what_is_no_http_is_refused_by_the_server_below(small: House, head: bytes, status: int) -> None:
    """In its own words, since no route and so no dialect is known; nothing reaches a session or an engine."""
    answer = await spoken(small, head + b"\r\n")

    assert int(answer.split()[1]) == status
    assert await small.turns("s") == []
    assert len(small.journal) == 1


@pytest.mark.parametrize("header", [b"X-Session-ID: a/../b", b"X-Session-ID: \xff\xfe", b"X-Session-ID: a//b"])
async def test_a_header_that_names_no_session_is_refused(small: House, header: bytes) -> None:
    """In OpenAI's shape: this much was HTTP."""
    head = header + b"\r\nContent-Length: %d\r\n\r\n" % len(asks()) + asks()

    answer = await spoken(small, head, path=b"/v1/chat/completions")

    assert int(answer.split()[1]) == 400
    assert orjson.loads(answer.partition(b"\r\n\r\n")[2])["error"]["param"] == "session_id"
    assert len(small.journal) == 1


async def test_a_body_that_ends_too_soon_is_recorded_as_nothing(small: House) -> None:
    """Whether the client hangs up, or only stops talking."""
    head = b"Content-Length: %d\r\n\r\n" % (len(asks()) + 10) + asks()

    answer = await spoken(small, head, ends=True)

    assert not answer or 400 <= int(answer.split()[1]) < 500
    assert await small.turns("s") == []
    assert len(small.journal) == 1


async def spoken(house: House, head: bytes, *, path: bytes = PATH.encode(), ends: bool = False) -> bytes:
    """The answer to a request that no client library would write; `ends` closes the client's side after it."""
    server = house.http.server
    reader, writer = await asyncio.open_connection(server.host, server.port)
    writer.write(b"POST " + path + b" HTTP/1.1\r\nHost: x\r\nConnection: close\r\n" + head)
    answer = b""
    try:
        if ends:
            writer.write_eof()
        with suppress(ConnectionError):  # it may hang up while much is still being sent
            answer = await asyncio.wait_for(reader.read(1 << 16), 5)
        return answer
    finally:
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()
