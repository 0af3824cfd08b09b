"""Rows in Parquet, and in an Arrow stream: lists as columns of lists, what is nested as JSON text."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, BinaryIO

from gateway.errors import ConfigError
from gateway.verify.json_file import read_json
from gateway.verify.mismatch import Json, Mismatch

if TYPE_CHECKING:
    import pyarrow as pa

_NESTED = ("metadata", "tags", "tools", "messages", "policy_versions", "side_arrays", "turns", "certificate")
_OPTIONAL = ("loss_weights", "teacher_logprobs")
"""Columns in which a row that has no such field has nothing."""

_FOOTER = b"gateway.footer"
_ROWS_AT_ONCE = 1


def read_parquet(file: BinaryIO) -> Iterator[tuple[str, object]]:
    """Each row as ``("row", value)``, and the footer.

    Raises:
        Mismatch: it is no Parquet, or a column holds no JSON text.
        ConfigError: pyarrow is missing.
    """
    arrow = _pyarrow()
    from pyarrow import parquet

    try:
        opened = parquet.ParquetFile(file)
        for batch in opened.iter_batches(batch_size=_ROWS_AT_ONCE):
            yield from _rows(batch)
        yield from _footer(opened.metadata.metadata or {})
    except (arrow.ArrowException, OSError) as error:
        raise Mismatch("file", "rows in Parquet", str(error)) from None


def read_arrow(file: BinaryIO) -> Iterator[tuple[str, object]]:
    """Each row of a stream of record batches as ``("row", value)``, and the footer.

    Raises:
        Mismatch: it is no such stream, a column holds no JSON text, or something follows the footer.
        ConfigError: pyarrow is missing.
    """
    arrow = _pyarrow()
    from pyarrow import ipc

    ended = False
    try:
        with ipc.open_stream(file) as stream:
            for batch, metadata in stream.iter_batches_with_custom_metadata():
                if ended:
                    raise Mismatch("footer", "the end of the stream behind it", "another batch")
                yield from _rows(batch)
                footer = list(_footer(dict(metadata or {})))
                ended = bool(footer)
                yield from footer
    except (arrow.ArrowException, OSError) as error:
        raise Mismatch("file", "a stream of Arrow batches", str(error)) from None


def _pyarrow() -> Any:
    try:
        import pyarrow as pa
    except ImportError:
        raise ConfigError(
            "to read Parquet and Arrow files needs pyarrow: pip install 'rollout-gateway[parquet]'"
        ) from None
    return pa


def _rows(batch: "pa.RecordBatch") -> Iterator[tuple[str, object]]:
    for index in range(batch.num_rows):
        row: Json = {}
        for name, column in zip(batch.schema.names, batch.columns, strict=True):
            value = column[index].as_py()
            if name in _NESTED:
                value = _nested(name, value)
            if value is not None or name not in _OPTIONAL:
                row[name] = value
        yield "row", row


def _nested(name: str, text: object) -> object:
    try:
        if isinstance(text, str):
            return read_json(text)
    except (ValueError, RecursionError) as error:
        raise Mismatch(name, "JSON text", f"no JSON: {error}") from None
    raise Mismatch(name, "JSON text", text)


def _footer(metadata: dict[bytes, bytes]) -> Iterator[tuple[str, object]]:
    if _FOOTER in metadata:
        yield "footer", _nested("footer", metadata[_FOOTER].decode("utf-8", "replace"))
