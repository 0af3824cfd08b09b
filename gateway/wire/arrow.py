"""Rows as Arrow record batches, for trainers that read columns: a stream of them, or a Parquet file.

Lists of numbers and what is one value are columns of their own types; everything nested is JSON text. So a row comes
back as it was, to the last bit, and its certificate holds.
"""

from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib import import_module
from io import RawIOBase
from itertools import accumulate
from typing import Any, BinaryIO, cast

import orjson

from gateway.core.types import JsonObject
from gateway.errors import ConfigError
from gateway.wire.arrays import ROW_ARRAYS, read_numbers
from gateway.wire.pages import named

_TEXTS = ("session_id", "group_id", "rollout_id", "row_id", "parent_row_id", "model", "ended_by", "thinking_retention")
_COUNTS = ("row_index", "n_rows", "rollout_trainable_tokens")
_NESTED = ("metadata", "tags", "tools", "messages", "policy_versions", "side_arrays", "turns", "certificate")
_NAMES = {*_TEXTS, *_COUNTS, *ROW_ARRAYS, *_NESTED, "reward", "truncated"}
_MAY_BE_ABSENT = ("loss_weights", "teacher_logprobs")
"""In columns they are there for every row, and null."""
_FOOTER = b"gateway.footer"
_BATCH_BYTES = 16 << 20
"""A batch is written when it has as much, or with its first row."""

_Cells = Mapping[str, object]
"""A row with its lists as arrays, and what is nested as text."""


def need_pyarrow() -> Any:
    """The package, with all that is used of it.

    Raises:
        ConfigError: it is not installed.
    """
    try:
        import_module("pyarrow.parquet")
        return import_module("pyarrow")
    except ImportError:
        raise ConfigError("Arrow and Parquet need pyarrow: pip install 'rollout-gateway[parquet]'") from None


def arrow_stream(items: Iterable[JsonObject], *, batch_bytes: int = _BATCH_BYTES) -> Iterator[bytes]:
    """Rows as an Arrow stream, in pieces of a batch. A footer, where one comes last, is metadata of a last empty batch.

    Arrays in a row are lists, or in base64. Raises what `record_batches` does.
    """
    arrow, sink, file = need_pyarrow(), _Pieces(), _Parted(items)
    schema = _schema(arrow)
    with arrow.ipc.new_stream(sink, schema) as writer:
        for batch in record_batches(file.rows(), batch_bytes=batch_bytes):
            writer.write_batch(batch)
            yield sink.taken()
        if file.footer is not None:
            empty = arrow.RecordBatch.from_pylist([], schema=schema)
            writer.write_batch(empty, custom_metadata={_FOOTER: orjson.dumps(file.footer)})
    yield sink.taken()


def write_parquet(out: BinaryIO, items: Iterable[JsonObject], *, batch_bytes: int = _BATCH_BYTES) -> None:
    """Write rows as a Parquet file; a footer, where one comes last, is metadata. Raises what `record_batches` does."""
    arrow, file = need_pyarrow(), _Parted(items)
    with arrow.parquet.ParquetWriter(out, _schema(arrow), compression="zstd") as writer:
        for batch in record_batches(file.rows(), batch_bytes=batch_bytes):
            writer.write_batch(batch)
        if file.footer is not None:
            writer.add_key_value_metadata({_FOOTER: orjson.dumps(file.footer)})


def read_arrow(file: BinaryIO) -> Iterator[JsonObject]:
    """The rows of an Arrow stream, a batch at a time, and ``{"footer": …}`` last where it has one.

    Raises:
        ConfigError: pyarrow is not installed.
        ValueError: it is none.
    """
    footer = None
    with need_pyarrow().ipc.open_stream(file) as stream:
        for batch, metadata in stream.iter_batches_with_custom_metadata():
            yield from _rows_of(batch)
            footer = (metadata or {}).get(_FOOTER, footer)
    yield from _last(footer)


def read_parquet(file: BinaryIO) -> Iterator[JsonObject]:
    """The same of a Parquet file, a few rows at a time."""
    with need_pyarrow().parquet.ParquetFile(file) as parquet:
        for batch in parquet.iter_batches(batch_size=16):
            yield from _rows_of(batch)
        yield from _last((parquet.metadata.metadata or {}).get(_FOOTER))


def _rows_of(batch: Any) -> Iterator[JsonObject]:
    for index in range(batch.num_rows):  # of long rows, to hold one as numbers of Python's is enough
        (row,) = batch.slice(index, 1).to_pylist()
        nested = {name: orjson.loads(row[name]) for name in _NESTED if isinstance(row.get(name), str)}
        told = row | nested
        yield {name: value for name, value in told.items() if value is not None or name not in _MAY_BE_ABSENT}


def _last(footer: bytes | None) -> Iterator[JsonObject]:
    if footer is not None:
        yield {"footer": orjson.loads(footer)}


class _Parted:
    """Rows, and what comes after them."""

    def __init__(self, items: Iterable[JsonObject]) -> None:
        self._items = items
        self.footer: object = None
        """What stands under ``footer``, once all is read; ``None`` where that is nowhere."""

    def rows(self) -> Iterator[JsonObject]:
        for item in self._items:
            if item.keys() == {"footer"}:
                self.footer = item["footer"]
            else:
                yield item


def record_batches(rows: Iterable[JsonObject], *, batch_bytes: int = _BATCH_BYTES) -> Iterator[Any]:
    """Rows as record batches, none much larger than `batch_bytes` unless one row is.

    Raises:
        ConfigError: pyarrow is not installed.
        ValueError: a row has a field for which there is no column.
    """
    arrow = need_pyarrow()
    schema, held, size_bytes = _schema(arrow), list[_Cells](), 0
    for row in rows:
        held.append(_cells(row))
        size_bytes += sum(_size_bytes(cell) for cell in held[-1].values())
        if size_bytes >= batch_bytes:
            yield _batch(arrow, schema, held)
            held, size_bytes = [], 0
    if held:
        yield _batch(arrow, schema, held)


def _cells(row: JsonObject) -> "_Cells":
    unknown = row.keys() - _NAMES
    if unknown:
        raise ValueError(
            f"a row has {', '.join(sorted(unknown))}, for which there is no column: is this gateway older?"
        )
    lists = {name: None if row.get(name) is None else read_numbers(name, row[name]) for name in ROW_ARRAYS}
    with named(row):
        nested = {name: orjson.dumps(row.get(name)).decode() for name in _NESTED}
    return {**row, **lists, **nested}


def _size_bytes(cell: object) -> int:
    return memoryview(cell).nbytes if isinstance(cell, array) else len(cell) if isinstance(cell, str) else 8


def _schema(arrow: Any) -> Any:
    kinds = {"I": arrow.uint32(), "B": arrow.uint8(), "f": arrow.float32()}
    return arrow.schema(
        [(name, arrow.string()) for name in _TEXTS]
        + [(name, arrow.int64()) for name in _COUNTS]
        + [("reward", arrow.float64()), ("truncated", arrow.bool_())]
        + [(name, arrow.list_(kinds[code])) for name, code in ROW_ARRAYS.items()]
        + [(name, arrow.string()) for name in _NESTED]
    )


def _batch(arrow: Any, schema: Any, rows: Sequence["_Cells"]) -> Any:
    def column(field: Any) -> Any:
        cells = [row.get(field.name) for row in rows]
        if field.name not in ROW_ARRAYS:
            return arrow.array(cells, field.type)
        lists = cast(list["array[Any] | None"], cells)
        numbers = b"".join(memoryview(numbers) for numbers in lists if numbers is not None)
        ends = accumulate((0 if numbers is None else len(numbers) for numbers in lists), initial=0)
        whole = arrow.Array.from_buffers(field.type.value_type, _count(lists), [None, arrow.py_buffer(numbers)])
        absent = arrow.array([numbers is None for numbers in lists])
        return arrow.ListArray.from_arrays(arrow.array(ends, arrow.int32()), whole, field.type, mask=absent)

    return arrow.RecordBatch.from_arrays([column(field) for field in schema], schema=schema)


def _count(lists: Sequence["array[Any] | None"]) -> int:
    return sum(len(numbers) for numbers in lists if numbers is not None)


class _Pieces(RawIOBase):
    """Takes what is written, to be taken away."""

    def __init__(self) -> None:
        self._written = bytearray()

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self._written += data
        return len(memoryview(data))

    def taken(self) -> bytes:
        piece, self._written = bytes(self._written), bytearray()
        return piece
