"""Rows in Parquet, and in an Arrow stream: lists as columns of lists, what is nested as JSON text."""

from collections.abc import Iterator
from importlib import import_module
from typing import TYPE_CHECKING, BinaryIO

from gateway.errors import ConfigError
from gateway.verify.digest import json_bytes
from gateway.verify.json_file import read_json
from gateway.verify.mismatch import Json, Mismatch, Unreadable

if TYPE_CHECKING:
    import pyarrow as pa

_NESTED = ("metadata", "tags", "tools", "messages", "policy_versions", "side_arrays", "turns", "certificate")
_OPTIONAL = ("loss_weights", "teacher_logprobs")
"""Columns in which a row that has no such field has nothing."""

_ARRAYS = ("token_ids", "loss_mask", "logprobs", *_OPTIONAL)

_FOOTER = b"gateway.footer"
_ROWS_AT_ONCE = 1


def read_parquet(file: BinaryIO) -> Iterator[tuple[str, object]]:
    """Each row as ``("row", value)``, and the footer.

    Raises:
        Mismatch: it is no Parquet, or a column holds no JSON text.
        ConfigError: pyarrow is missing.
    """
    _need_pyarrow()
    yield from _guarded(_parquet_items(file), "rows in Parquet")


def _parquet_items(file: BinaryIO) -> Iterator[tuple[str, object]]:
    from pyarrow import parquet

    opened = parquet.ParquetFile(file)
    for batch in opened.iter_batches(batch_size=_ROWS_AT_ONCE):
        yield from _rows(batch)
    yield from _footer(opened.metadata.metadata or {})


def read_arrow(file: BinaryIO) -> Iterator[tuple[str, object]]:
    """Each row of a stream of record batches as ``("row", value)``, and the footer.

    Raises:
        Mismatch: it is no such stream, a column holds no JSON text, or something follows the footer or the stream.
        ConfigError: pyarrow is missing.
    """
    _need_pyarrow()
    yield from _guarded(_arrow_items(file), "a stream of Arrow batches")


def _arrow_items(file: BinaryIO) -> Iterator[tuple[str, object]]:
    from pyarrow import ipc

    ended = False
    with ipc.open_stream(file) as stream:
        for batch, metadata in stream.iter_batches_with_custom_metadata():
            if ended:
                raise Mismatch("footer", "the end of the stream behind it", "another batch")
            yield from _rows(batch)
            footer = list(_footer(dict(metadata or {})))
            ended = bool(footer)
            yield from footer
        if file.read(1):
            raise Mismatch("file", "the end of the file behind the stream", "more bytes")


def _guarded(items: Iterator[tuple[str, object]], wanted: str) -> Iterator[tuple[str, object]]:
    try:
        yield from items
    except (Mismatch, GeneratorExit):
        raise
    except Exception as error:  # noqa: BLE001  # whatever a damaged file makes of the reader, which checks little
        raise Unreadable("file", wanted, f"{type(error).__name__}: {error}") from None


def _need_pyarrow() -> None:
    try:
        import_module("pyarrow")
    except ImportError:
        raise ConfigError(
            "to read Parquet and Arrow files needs pyarrow: pip install 'rollout-gateway[parquet]'"
        ) from None


def _rows(batch: "pa.RecordBatch") -> Iterator[tuple[str, object]]:
    batch.validate(full=True)  # before what a damaged batch says of its own buffers is followed out of them
    names = batch.schema.names
    if len(set(names)) < len(names):
        raise Unreadable("file", "each column once", f"columns {', '.join(sorted(names))}")
    for index in range(batch.num_rows):
        row: Json = {}
        for name, column in zip(names, batch.columns, strict=True):
            value = column[index].as_py()
            if name in _NESTED:
                value = _nested(name, value)
            if value is not None or name not in _OPTIONAL:
                row[name] = value if name in _ARRAYS else _plain(name, value)
        yield "row", row


def _plain(name: str, value: object) -> object:
    try:
        json_bytes(value)
    except (TypeError, ValueError):
        raise Unreadable(name, "a value that JSON has", f"a {type(value).__name__}") from None
    return value


def _nested(name: str, text: object) -> object:
    try:
        if isinstance(text, str):
            return read_json(text)
    except (ValueError, RecursionError) as error:
        raise Unreadable(name, "JSON text", f"no JSON: {error}") from None
    raise Unreadable(name, "JSON text", text)


def _footer(metadata: dict[bytes, bytes]) -> Iterator[tuple[str, object]]:
    if _FOOTER in metadata:
        yield "footer", _nested("footer", metadata[_FOOTER].decode("utf-8", "replace"))
