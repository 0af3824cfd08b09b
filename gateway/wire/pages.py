"""What a trainer reads, on its way out: pages and lines."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import orjson

from gateway.core.types import JsonObject

PAGE_TURNS, PAGE_ROWS = 500, 20
_PIECE_BYTES = 65_536
"""What is sent at once, and at least a row."""
_NAMES = ("session_id", "row_id", "row_index", "turn_id")


class Unwritable(Exception):
    """A row or turn that could not be written; the cause says why."""

    def __init__(self, item: JsonObject) -> None:
        super().__init__()
        self.names: JsonObject = {name: item[name] for name in _NAMES if name in item}
        """Which one it is."""


@contextmanager
def named(item: JsonObject) -> Iterator[None]:
    """Whatever fails while `item` is made or written is told with its name."""
    try:
        yield
    except Exception as error:
        raise Unwritable(item) from error


def _written(item: JsonObject) -> bytes:
    with named(item):
        return orjson.dumps(item)


def encode_page(items: Iterable[JsonObject], following: str | None, more: JsonObject | None = None) -> Iterator[bytes]:
    """One page in pieces: ``{"data": […], "next": following, …}``; `more` are further fields.

    All the work is done as the pieces are asked for, and no two large items are held at once.
    """
    written = bytearray(b'{"data":[')
    for index, item in enumerate(items):
        written += b"," * (index > 0) + _written(item)
        if len(written) >= _PIECE_BYTES:
            yield bytes(written)
            written.clear()
    yield bytes(written) + b"]," + orjson.dumps({"next": following, **(more or {})})[1:]


def encode_lines(items: Iterable[JsonObject]) -> Iterator[bytes]:
    """Each item as a line of JSON, in pieces of whole lines."""
    written = bytearray()
    for item in items:
        written += _written(item) + b"\n"
        if len(written) >= _PIECE_BYTES:
            yield bytes(written)
            written.clear()
    if written:
        yield bytes(written)
