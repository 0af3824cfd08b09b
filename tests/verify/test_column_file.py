"""Columns are held to the same claims as lines."""

import json
import sys
from io import BytesIO
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

from gateway.errors import ConfigError
from gateway.verify.verdict import Verdict, verify
from gateway.wire.arrow import arrow_stream, write_parquet
from tests.verify.writer import footer_of

FORMS = ("parquet", "arrow")


def written(form: str, values: list[Any]) -> bytes:
    """Rows and a footer as a file of columns."""
    if form == "arrow":
        return b"".join(arrow_stream(iter(values)))
    write_parquet(file := BytesIO(), iter(values))
    return file.getvalue()


def looked(tmp_path: Path, content: bytes, *, strict: bool = True) -> Verdict:
    """What is said of a file of this content."""
    file = tmp_path / "rows"
    file.write_bytes(content)
    return verify(file, strict=strict)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", ["once", "split", "fresh_split", "latest"])
def test_a_real_export_in_columns_is_accepted(exports, tmp_path, form, name):
    """With its footer, and with the arrays that only some exports have."""
    values = [json.loads(line) for line in exports[name].content.splitlines()]
    verdict = looked(tmp_path, written(form, values))

    assert verdict.mismatch is None, str(verdict)
    assert len(values) - 1 == verdict.rows
    assert looked(tmp_path, written(form, values[:-1]), strict=False).warnings


@pytest.mark.parametrize("form", FORMS)
def test_a_change_in_a_column_is_refused_and_its_place_named(exports, tmp_path, form):
    """As in a line."""
    values = [json.loads(line) for line in exports["once"].content.splitlines()]
    values[1]["loss_mask"][0] = 1
    found = looked(tmp_path, written(form, values)).mismatch

    assert found is not None
    assert (2, "loss_mask[0]") == (found.row, found.at)


@pytest.mark.parametrize("form", FORMS)
def test_a_footer_that_tells_of_other_rows_is_refused(exports, tmp_path, form):
    """A row less at the end."""
    values = [json.loads(line) for line in exports["once"].content.splitlines()]
    found = looked(tmp_path, written(form, [*values[:-2], values[-1]])).mismatch

    assert found is not None
    assert "n_rows" == found.at


@pytest.mark.parametrize("form", FORMS)
def test_a_file_that_breaks_off_is_refused(exports, tmp_path, form):
    """With what the reader says."""
    values = [json.loads(line) for line in exports["once"].content.splitlines()]
    content = written(form, values)
    verdict = looked(tmp_path, content[: len(content) // 2])

    assert verdict.mismatch is not None
    assert "file" == verdict.mismatch.at
    assert "\n" not in str(verdict)


def test_a_column_that_holds_no_json_is_refused(exports, tmp_path):
    """Or none of text."""
    schema = pa.schema([("row_id", pa.string()), ("metadata", pa.string())])
    for text, words in (("{", "no JSON"), (None, "None")):
        table = pa.Table.from_pylist([{"row_id": "a", "metadata": text}], schema)
        parquet.write_table(table, file := BytesIO())
        found = looked(tmp_path, file.getvalue()).mismatch
        assert found is not None
        assert (1, "metadata") == (found.row, found.at)
        assert words in str(found)


def test_nothing_follows_the_footer_of_a_stream(exports, tmp_path):
    """Its batch is the last."""
    rows = exports["once"].rows
    schema = pa.ipc.open_stream(written("arrow", rows)).schema
    sink = BytesIO()
    with pa.ipc.new_stream(sink, schema) as writer:
        empty = pa.RecordBatch.from_pylist([], schema=schema)
        writer.write_batch(empty, custom_metadata={"gateway.footer": json.dumps(footer_of([]))})
        writer.write_batch(empty)
    found = looked(tmp_path, sink.getvalue()).mismatch
    assert found is not None
    assert "end of the stream" in str(found)


def test_nothing_follows_the_stream(exports, tmp_path):
    """Not another of the kind, which no reader would see."""
    content = written("arrow", [json.loads(line) for line in exports["latest"].content.splitlines()])
    assert looked(tmp_path, content).mismatch is None
    for more in (content, b"x"):
        found = looked(tmp_path, content + more).mismatch
        assert found is not None
        assert "end of the file behind the stream" in str(found)


@pytest.mark.parametrize(("column", "words"), [
    (pa.array([b"\xff"]).view(pa.string()), "Unicode"),
    (pa.array([b"\x00"]), "bytes"),
    (pa.array([0], pa.timestamp("s")), "datetime"),
])  # fmt: skip
@pytest.mark.parametrize("form", FORMS)
def test_a_column_of_what_json_has_not_is_refused(exports, tmp_path, form, column, words):
    """By the number of its row, however a reader fails."""
    table = parquet.read_table(BytesIO(written("parquet", exports["latest"].rows)))
    table = table.append_column("more", column)
    if form == "parquet":
        parquet.write_table(table, file := BytesIO())
    else:
        with pa.ipc.new_stream(file := BytesIO(), table.schema) as stream:
            stream.write_table(table)
    found = looked(tmp_path, file.getvalue()).mismatch

    assert found is not None
    assert 1 == found.row
    json.dumps(found.as_json())


def test_a_damaged_stream_is_refused_whichever_byte_it_is(exports, tmp_path):
    """In metadata or in buffers: offsets are looked at before they are followed."""
    content = written("arrow", [json.loads(line) for line in exports["latest"].content.splitlines()])
    schema_bytes = 8 + int.from_bytes(content[4:8], "little")
    for at in range(schema_bytes, len(content), len(content) // 60):
        damaged = bytearray(content)
        damaged[at] ^= 0x80
        json.dumps(looked(tmp_path, bytes(damaged)).as_json())


@pytest.mark.parametrize("form", FORMS)
def test_without_pyarrow_the_remedy_is_named(exports, tmp_path, monkeypatch, form):
    """It is an extra."""
    content = written(form, exports["latest"].rows)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ConfigError, match=r"pip install 'rollout-gateway\[parquet\]'"):
        looked(tmp_path, content)
