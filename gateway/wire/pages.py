"""What a trainer reads, on its way out: pages and lines."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import chain

import orjson

from gateway.core.types import JsonObject

PAGE_TURNS, PAGE_ROWS = 500, 20
_PIECE_BYTES = 65_536
"""What is sent at once, and at least a part of a list."""
_PART_ITEMS = 128
"""How much of a long list is written at once: while that is done, no other thread can do anything."""
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


def encode_page(items: Iterable[JsonObject], following: str | None, more: JsonObject | None = None) -> Iterator[bytes]:
    """One page in pieces: ``{"data": […], "next": following, …}``; `more` are further fields.

    All the work is done as the pieces are asked for, and no two large items are held at once.
    """
    return _pieces(_page(items, {"next": following, **(more or {})}))


def _page(items: Iterable[JsonObject], rest: JsonObject) -> Iterator[bytes]:
    yield b'{"data":['
    for index, item in enumerate(items):
        yield b"," * (index > 0)
        yield from _written(item)
    yield b"],"
    yield orjson.dumps(rest)[1:]


def encode_lines(items: Iterable[JsonObject]) -> Iterator[bytes]:
    """Each item as a line of JSON, in pieces."""
    return _pieces(part for item in items for part in chain(_written(item), (b"\n",)))


def _pieces(parts: Iterable[bytes]) -> Iterator[bytes]:
    """The same bytes, as many at once as are worth sending."""
    written = bytearray()
    for part in parts:
        written += part
        if len(written) >= _PIECE_BYTES:
            yield bytes(written)
            written.clear()
    if written:
        yield bytes(written)


def _written(item: JsonObject) -> Iterator[bytes]:
    with named(item):
        yield from _parts(item)


def _parts(value: object) -> Iterator[bytes]:
    """The JSON of an object, part by part: its lists, and those of objects in it, a few items at a time."""
    if isinstance(value, Mapping) and value:
        mark = b"{"
        for name, held in value.items():
            yield mark + orjson.dumps(name) + b":"
            yield from _parts(held)
            mark = b","
        yield b"}"
    elif isinstance(value, list) and len(value) > _PART_ITEMS:
        mark = b"["
        for start in range(0, len(value), _PART_ITEMS):
            yield mark + orjson.dumps(value[start : start + _PART_ITEMS])[1:-1]
            mark = b","
        yield b"]"
    else:
        yield orjson.dumps(value)
