"""Rows in JSON text: one a line, of which one is in hand at a time, or a page of them, which are all there."""

import json
import re
from collections.abc import Iterator
from typing import BinaryIO

from gateway.verify.mismatch import Json, Mismatch, Unreadable
from gateway.verify.shape import LIST, check_object

_PAGE = re.compile(rb'\s*\{\s*"(?:data|next|excluded)"\s*:')


def is_page(beginning: bytes) -> bool:
    """Whether a file that begins so is a page, and not rows line by line."""
    return _PAGE.match(beginning) is not None


def _unique(pairs: list[tuple[str, object]]) -> Json:
    read = dict(pairs)
    if len(read) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"the key {next(name for name in names if names.count(name) > 1)!r} twice in one object")
    return read


def _no_constant(text: str) -> float:
    raise ValueError(f"{text} is no JSON")


_DECODER = json.JSONDecoder(object_pairs_hook=_unique, parse_constant=_no_constant)
_READ_WRONG = (ValueError, RecursionError)


def read_json(text: str | bytes) -> object:
    """One JSON value, strictly: each key once, no NaN.

    Raises:
        ValueError: it is none.
    """
    return _DECODER.decode(text if isinstance(text, str) else text.decode("utf-8"))


def read_lines(file: BinaryIO) -> Iterator[tuple[str, object]]:
    """Each line's value: ``("row", value)``, and at the end ``("footer", value)`` where there is one.

    Raises:
        Mismatch: a line is no JSON, or something follows the footer.
    """
    footer = False
    for number, line in enumerate(file, start=1):
        if not line.strip():
            continue
        if footer:
            raise Mismatch("footer", "the end of the file behind it", f"line {number}")
        try:
            value = read_json(line)
        except _READ_WRONG as error:
            whole = "" if line.endswith(b"\n") else ", in a line that the file breaks off"
            raise Unreadable("line", "a row in JSON", f"no JSON{whole}: {error}") from None
        footer = isinstance(value, dict) and value.keys() == {"footer"}
        yield ("footer", value["footer"]) if footer and isinstance(value, dict) else ("row", value)


def read_page(file: BinaryIO) -> Iterator[tuple[str, object]]:
    """The rows of a page as ``("row", value)``; its other fields by their names.

    Raises:
        Mismatch: it is no JSON, or no page.
    """
    try:
        page = read_json(file.read())
    except _READ_WRONG as error:
        raise Mismatch("page", "a page of rows in JSON", f"no JSON: {error}") from None
    fields = check_object(page, "page", {"data": LIST})
    yield from (("row", row) for row in fields.pop("data"))
    yield from fields.items()
