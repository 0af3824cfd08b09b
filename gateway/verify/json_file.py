"""Rows in JSON text: one a line, or a page of them; never more than one of them in hand."""

import json
import re
from collections.abc import Generator, Iterator
from typing import BinaryIO

from gateway.verify.mismatch import Json, Mismatch

_PAGE = re.compile(rb'\s*\{\s*"(?:data|next|excluded)"\s*:')
_SPACE = re.compile(r"[ \t\n\r]*")


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
            raise Mismatch("line", "a row in JSON", f"no JSON{whole}: {error}") from None
        footer = isinstance(value, dict) and value.keys() == {"footer"}
        yield ("footer", value["footer"]) if footer and isinstance(value, dict) else ("row", value)


def read_page(file: BinaryIO) -> Iterator[tuple[str, object]]:
    """The rows of a page as ``("row", value)``; its other fields by their names.

    Raises:
        Mismatch: it is no JSON, or no page.
    """
    try:
        text = file.read().decode("utf-8")
        yield from _fields(text)
    except _READ_WRONG as error:
        raise Mismatch("page", "a page of rows in JSON", f"no JSON: {error}") from None


def _fields(text: str) -> Iterator[tuple[str, object]]:
    at, seen = _after(text, 0, "{"), set[str]()
    while True:
        name, at = _DECODER.raw_decode(text, _skip(text, at))
        if not isinstance(name, str) or name in seen:
            raise ValueError(f"the key {name!r} where another is due")
        seen.add(name)
        at = _skip(text, _after(text, at, ":"))
        if name == "data" and text.startswith("[", at):
            at = yield from _rows(text, at + 1)
        else:
            value, at = _DECODER.raw_decode(text, at)
            yield name, value
        at = _skip(text, at)
        if not text.startswith(",", at):
            break
        at += 1
    end = _skip(text, _after(text, at, "}"))
    if end != len(text):
        raise ValueError("something follows the page")


def _rows(text: str, at: int) -> Generator[tuple[str, object], None, int]:
    at = _skip(text, at)
    while not text.startswith("]", at):
        value, at = _DECODER.raw_decode(text, at)
        yield "row", value
        at = _skip(text, at)
        if not text.startswith(",", at):
            break
        at = _skip(text, at + 1)
    return _after(text, at, "]")


def _skip(text: str, at: int) -> int:
    """The position after white space."""
    space = _SPACE.match(text, at)
    assert space is not None
    return space.end()


def _after(text: str, at: int, mark: str) -> int:
    """The position after `mark`, which must come next."""
    at = _skip(text, at)
    if not text.startswith(mark, at):
        raise ValueError(f"a {mark} is missing at character {at}")
    return at + 1
