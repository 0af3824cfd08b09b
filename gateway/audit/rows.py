"""Files of rows, read one after the other, and what of a row an audit looks at."""

from array import array
from base64 import b64decode
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import orjson

from gateway.core.types import JsonObject
from gateway.errors import ConfigError
from gateway.wire.arrow import need_pyarrow

_JSON_TEXT = ("metadata", "tags", "tools", "messages", "policy_versions", "side_arrays", "turns", "certificate")
_MAY_BE_ABSENT = ("loss_weights", "teacher_logprobs")
"""In columns they are there for every row, and null."""


@dataclass(frozen=True, slots=True)
class Row:
    """A row with what was recorded of it."""

    id: str
    ids: "array[int]"
    logprobs: "array[float]"
    trained: tuple[int, ...]
    """Positions with mask 1 in turns that were sampled from the model's own distribution: those that can be compared
    with scores, which are at temperature 1 and not truncated."""
    apart: Mapping[str, int]
    """How many other positions with mask 1 there are, by what keeps them from being compared."""


def read_items(path: Path) -> Iterator[JsonObject]:
    """The rows of a file as JSON objects, and ``{"footer": …}`` last where it has one: lines, a page, or columns.

    Raises:
        ConfigError: the file cannot be read, or holds something else.
    """
    try:
        for item in _columns(path) if path.suffix in (".parquet", ".arrow") else _json(path):
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
    if path.suffix in (".parquet", ".arrow"):
        return None
    with path.open("rb") as file:
        return sum(chunk.count(b"\n") for chunk in iter(lambda: file.read(1 << 20), b""))


def _json(path: Path) -> Iterator[object]:
    with path.open("rb") as file:
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


def _columns(path: Path) -> Iterator[JsonObject]:
    arrow = need_pyarrow()
    if path.suffix == ".parquet":
        with arrow.parquet.ParquetFile(path) as file:
            for batch in file.iter_batches(batch_size=16):
                yield from map(_from_columns, batch.to_pylist())
            footer = (file.metadata.metadata or {}).get(b"gateway.footer")
    else:
        footer = None
        with arrow.ipc.open_stream(path.read_bytes()) as stream:
            for batch, metadata in stream.iter_batches_with_custom_metadata():
                yield from map(_from_columns, batch.to_pylist())
                footer = (metadata or {}).get(b"gateway.footer", footer)
    if footer is not None:
        yield {"footer": orjson.loads(footer)}


def _from_columns(row: dict[str, Any]) -> JsonObject:
    nested = {name: orjson.loads(row[name]) for name in _JSON_TEXT if isinstance(row.get(name), str)}
    return {name: value for name, value in (row | nested).items() if value is not None or name not in _MAY_BE_ABSENT}


def row_of(item: JsonObject) -> Row:
    """What an audit looks at of a row.

    Raises:
        ConfigError: a field is missing or is none of a row's.
    """
    row_id = str(item.get("row_id"))
    try:
        ids, mask, logprobs = (_numbers(item[name], code) for name, code in _ARRAYS.items())
        if not len(ids) == len(mask) == len(logprobs) > 0:
            raise ValueError(f"{len(ids)} token_ids, {len(mask)} of loss_mask and {len(logprobs)} logprobs")
        trained: list[int] = []
        apart: Counter[str] = Counter()
        for turn in cast(list[dict[str, Any]], item["turns"]):
            kept = [at for at in range(turn["start"], turn["end"]) if mask[at]]
            if (why := _why_apart(turn)) is None:
                trained += kept
            elif kept:
                apart[why] += len(kept)
    except (LookupError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise ConfigError(f"row {row_id} cannot be read: {type(error).__name__}: {error}") from None
    return Row(row_id, ids, logprobs, tuple(trained), apart)


_ARRAYS = {"token_ids": "I", "loss_mask": "B", "logprobs": "f"}


def _numbers(given: Any, code: str) -> "array[Any]":
    return array(code, b64decode(given["base64"]) if isinstance(given, Mapping) else given)


def _why_apart(turn: Mapping[str, Any]) -> str | None:
    """What keeps a turn's logprobs from being compared with scores; ``None`` when nothing does."""
    distribution = turn.get("distribution") or "unknown"
    if distribution != "exact":
        return str(distribution)
    return None if turn["sampling"]["temperature"] == 1 else "temperature"
