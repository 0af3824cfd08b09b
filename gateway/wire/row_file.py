"""Files of rows: which form a name asks for, written and read."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

import orjson

from gateway.core.types import JsonObject
from gateway.errors import ConfigError
from gateway.wire.arrow import arrow_stream, need_pyarrow, read_arrow, read_parquet, write_parquet
from gateway.wire.pages import encode_lines

_COLUMNS = (".parquet", ".arrow")


def check_form(path: Path) -> None:
    """A file of this name can be written.

    Raises:
        ConfigError: its suffix names no form that there is, or pyarrow is needed and not installed.
    """
    if has_columns(path):
        need_pyarrow()
    elif path.suffix != ".ndjson":
        raise ConfigError(f"--out {path}: its name must end in .ndjson, .parquet or .arrow")


def has_columns(path: Path) -> bool:
    """Whether a file of this name holds columns, and not JSON."""
    return path.suffix in _COLUMNS


def write_items(path: Path, out: BinaryIO, items: Iterable[JsonObject]) -> None:
    """Write rows, and a footer if one comes last, into a file that will have the name `path`.

    Raises:
        ValueError: a row has a field for which there is no column.
    """
    match path.suffix:
        case ".parquet":
            write_parquet(out, items)
        case ".arrow":
            out.writelines(arrow_stream(items))
        case _:
            out.writelines(encode_lines(items))


def read_items(path: Path) -> Iterator[JsonObject]:
    """The rows of a file as JSON objects, and ``{"footer": …}`` last where it has one: lines, a page, or columns.

    Raises:
        ConfigError: the file cannot be read, or holds something else.
    """
    readers = {".parquet": read_parquet, ".arrow": read_arrow}
    try:
        with path.open("rb") as file:
            for item in readers.get(path.suffix, _read_json)(file):
                if not isinstance(item, dict):
                    raise ValueError(f"it holds a {type(item).__name__} where a row is due")  # noqa: TRY004  # of the file
                yield item
    except (OSError, ValueError) as error:  # among the latter are orjson's and pyarrow's
        raise ConfigError(f"{path} cannot be read: {error}") from None


def need_readable(path: Path) -> None:
    """Look before others are put to work whether there is a file to be read.

    Raises:
        ConfigError: there is none.
    """
    try:
        path.open("rb").close()
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror or error}") from None


def count_items(path: Path) -> int | None:
    """About how many there are, where that is quickly said: lines."""
    if has_columns(path):
        return None
    with path.open("rb") as file:
        return sum(chunk.count(b"\n") for chunk in iter(lambda: file.read(1 << 20), b""))


def _read_json(file: BinaryIO) -> Iterator[object]:
    first = file.readline()
    if (item := _line(first)) is not None:
        yield item
        yield from (orjson.loads(line) for line in file if line.strip())
        return
    page = orjson.loads(first + file.read())
    rows = page.get("data") if isinstance(page, dict) else page
    if not isinstance(rows, list):
        raise ValueError("it holds neither rows, one a line, nor a page of them")  # noqa: TRY004  # of the file
    yield from rows


def _line(line: bytes) -> JsonObject | None:
    """The row of a line; ``None`` when it is none by itself."""
    try:
        item = orjson.loads(line)
    except orjson.JSONDecodeError:
        return None
    return item if isinstance(item, dict) and "data" not in item else None
