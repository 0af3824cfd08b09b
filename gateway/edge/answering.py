"""The requests that are being answered: those that have come whole, until their answers are ready or sent."""

from collections.abc import Iterator
from contextlib import contextmanager

from aiohttp import web


class Answering:
    """What the end of a gateway waits for, beside turns. Mutable: requests come and go."""

    def __init__(self) -> None:
        self._requests: dict[int, web.Request] = {}
        # By `id`: requests are compared as dictionaries are.

    def __len__(self) -> int:
        """How many there are; who is still sending a request is not among them, and may never come to its end."""
        return sum(request.content.is_eof() for request in self._requests.values())

    @contextmanager
    def under_way(self, request: web.Request) -> Iterator[None]:
        """Count a request for the time of its handler, which sends what is long by itself."""
        self._requests[id(request)] = request
        try:
            yield
        finally:
            del self._requests[id(request)]
