"""An answer on its way to its client, streamed or whole: whether that takes it, and whether all of it has left."""

import asyncio
import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import structlog
from aiohttp import web

from gateway.edge.request_id import request_id_of

log = structlog.get_logger()

_LOOKS = 4
"""How often within the time after which a client counts as gone it is looked whether something has left."""
_KERNEL_BYTES = 16 * 1024
"""What the kernel takes before it can send it. By itself it takes megabytes, and more only when a third of them has
left: a client that reads slowly but steadily would seem to take nothing for minutes."""

_RESET = struct.pack("ii", 1, 0)
"""To linger for no time: what is unsent is thrown away, and the peer told that it was."""


class ClientLeft(Exception):
    """There is nobody to answer any more: the client hung up, or took nothing for too long."""


def transport_of(request: web.Request) -> asyncio.Transport:
    """The transport of a client that is there.

    Raises:
        ClientLeft: it is not.
    """
    if request.transport is None or request.transport.is_closing():
        raise ClientLeft
    return request.transport


def unsent_bytes(request: web.Request) -> int:
    """What waits in the transport of a client."""
    return request.transport.get_write_buffer_size() if request.transport is not None else 0


@contextmanager
def watched(request: web.Request, stall_s: float) -> Iterator[None]:
    """Hang up on a client to which something is to be sent, and nothing could be for so long.

    That is then as if it had hung up: its handler is cancelled, and whatever is written raises.
    """
    _keep_little_in_the_kernel(request)
    watch = _Watch(request, stall_s)
    watch.look()
    try:
        yield
    finally:
        watch.next_look.cancel()


async def conclude(request: web.Request, response: web.StreamResponse) -> None:
    """Send the end of an answer, and return when all of it has left for the client's kernel.

    Raises:
        ClientLeft: that did not come to be.
    """
    transport_of(request).set_write_buffer_limits(0)  # so that aiohttp waits for all of it, and not for most
    try:
        await response.write_eof()
        await request.writer.drain()  # the end of a body without chunks is nothing, and not waited for
    except ConnectionError:
        raise ClientLeft from None
    transport_of(request).set_write_buffer_limits()


def break_off(request: web.Request) -> None:
    """Reset a connection: to a client that reads until its end, an answer without a length would look whole."""
    if request.transport is None:
        return
    connection = request.transport.get_extra_info("socket")
    if connection is not None:
        with suppress(OSError):  # it may be closed already
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
    request.transport.abort()


class _Watch:
    def __init__(self, request: web.Request, stall_s: float) -> None:
        self._request = request
        self._stall_s = stall_s
        self._loop = asyncio.get_running_loop()
        self._sent_bytes = 0
        self._since_s = 0.0
        self.next_look: asyncio.Handle

    def look(self) -> None:
        waiting_bytes = unsent_bytes(self._request)
        sent_bytes, now_s = self._request.writer.output_size - waiting_bytes, self._loop.time()
        if not waiting_bytes or sent_bytes > self._sent_bytes:
            self._since_s = now_s
        elif now_s - self._since_s >= self._stall_s and self._request.transport is not None:
            about = {"request_id": request_id_of(self._request), "unsent_bytes": waiting_bytes}
            log.info("a client took nothing of its answer for too long", stall_s=self._stall_s, **about)
            break_off(self._request)
        self._sent_bytes = sent_bytes
        self.next_look = self._loop.call_later(self._stall_s / _LOOKS, self.look)


def _keep_little_in_the_kernel(request: web.Request) -> None:
    connection = request.get_extra_info("socket")
    if connection is not None and connection.family != socket.AF_UNIX and hasattr(socket, "TCP_NOTSENT_LOWAT"):
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, _KERNEL_BYTES)
