"""What a trainer reads, on its way out: pages and lines."""

from collections.abc import Iterable, Iterator

import orjson

from gateway.core.types import JsonObject

PAGE_TURNS, PAGE_ROWS = 500, 20
_PIECE_BYTES = 65_536
"""What is sent at once, and at least a row."""


def encode_page(items: Iterable[JsonObject], following: str | None, more: JsonObject | None = None) -> Iterator[bytes]:
    """One page in pieces: ``{"data": […], "next": following, …}``; `more` are further fields.

    All the work is done as the pieces are asked for, and no two large items are held at once.
    """
    written = bytearray(b'{"data":[')
    for index, item in enumerate(items):
        written += b"," * (index > 0) + orjson.dumps(item)
        if len(written) >= _PIECE_BYTES:
            yield bytes(written)
            written.clear()
    yield bytes(written) + b"]," + orjson.dumps({"next": following, **(more or {})})[1:]


def encode_lines(items: Iterable[JsonObject]) -> Iterator[bytes]:
    """Each item as a line of JSON, in pieces of whole lines."""
    written = bytearray()
    for item in items:
        written += orjson.dumps(item) + b"\n"
        if len(written) >= _PIECE_BYTES:
            yield bytes(written)
            written.clear()
    if written:
        yield bytes(written)
