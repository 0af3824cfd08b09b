"""Rows as Arrow and Parquet come back as they were."""

import sys
from array import array
from base64 import b64decode
from io import BytesIO
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import parquet

from gateway.errors import ConfigError
from gateway.wire.arrow import arrow_stream, read_arrow, read_parquet, write_parquet

CODES = {"token_ids": "I", "loss_mask": "B", "logprobs": "f", "loss_weights": "f", "teacher_logprobs": "f"}
NESTED = {"metadata", "tags", "tools", "messages", "policy_versions", "side_arrays", "turns", "certificate"}
FOOTER = {"footer": {"version": 1, "rows": 2, "excluded": [{"reason": "leaf"}]}}
FILES = sorted((Path(__file__).parent / "golden" / "rows").glob("*.ndjson"))
GOLDEN = [orjson.loads(line) for file in FILES for line in file.read_bytes().splitlines()]
ROWS = [row for row in GOLDEN if "footer" not in row]


@st.composite
def rows(draw: Any) -> dict[str, Any]:
    """A golden row, or one like it with other numbers."""
    row = dict(draw(st.sampled_from(ROWS)))
    if draw(st.booleans()):
        numbers = {"I": st.integers(0, 2**32 - 1), "B": st.integers(0, 1), "f": st.floats(-100, 0, width=32)}
        names = [name for name in CODES if name in row or name == "teacher_logprobs"]
        row |= {name: draw(st.lists(numbers[CODES[name]], max_size=4)) for name in names}
        row |= {"reward": draw(st.none() | st.floats(allow_nan=False)), "group_id": draw(st.none() | st.just("ü"))}
    return row


def in_lists(row: dict[str, Any]) -> dict[str, Any]:
    """The row with its arrays as JSON lists, whatever form they have."""
    coded = {name: row[name] for name in CODES if isinstance(row.get(name), dict)}
    return row | {name: array(CODES[name], b64decode(held["base64"])).tolist() for name, held in coded.items()}


def back(items: list[dict[str, Any]], **options: Any) -> tuple[list[Any], list[Any]]:
    """What comes back of rows, and a footer, from a stream and from a Parquet file."""
    file = BytesIO()
    write_parquet(file, items, **options)
    file.seek(0)
    return list(read_arrow(BytesIO(b"".join(arrow_stream(items, **options))))), list(read_parquet(file))


def streamed(given_rows: list[dict[str, Any]], footer: Any = None, **options: Any) -> tuple[Any, list[int], Any]:
    """What a reader of the stream gets: the table, the sizes of its batches, the last batch's metadata."""
    items = given_rows if footer is None else [*given_rows, footer]
    written = b"".join(arrow_stream(items, **options))
    batches = list(pa.ipc.open_stream(written).iter_batches_with_custom_metadata())
    table = pa.Table.from_batches([batch for batch, _ in batches], pa.ipc.open_stream(written).schema)
    return table, [batch.num_rows for batch, _ in batches], batches[-1][1] if batches else None


@given(st.lists(rows(), max_size=4), st.sampled_from([1, 5000, 1 << 20]))
@settings(max_examples=25)
def test_rows_come_back_as_they_were(given_rows: list[dict[str, Any]], batch_bytes: int) -> None:
    """Through a stream and through a file, whatever form their arrays had, however they are cut into batches."""
    expected = [in_lists(row) for row in given_rows]
    assert back(given_rows, batch_bytes=batch_bytes) == (expected, expected)


def test_every_golden_export_comes_back_with_its_footer() -> None:
    """So what is verified of the lines can be verified of the columns."""
    for file in FILES:
        items = [orjson.loads(line) for line in file.read_bytes().splitlines()]
        expected = [*map(in_lists, items[:-1]), items[-1]]

        assert back(items) == (expected, expected)


def test_rows_without_a_footer_come_back_without_one() -> None:
    """As few as none."""
    for given_rows in ([], ROWS[:1], ROWS[:3]):
        assert back(given_rows, batch_bytes=1) == ([*map(in_lists, given_rows)], [*map(in_lists, given_rows)])


ROW: dict[str, Any] = {
    **{name: [0] * 100 for name in CODES},
    **dict.fromkeys(NESTED, "x"),
    **dict.fromkeys(("session_id", "rollout_id", "row_id", "ended_by"), "x"),
    **dict.fromkeys(("group_id", "parent_row_id", "model", "thinking_retention", "reward")),
    **dict.fromkeys(("row_index", "n_rows", "rollout_trainable_tokens"), 1),
    "truncated": False,
}
ROW_BYTES = 100 * (4 + 1 + 4 + 4 + 4)


def test_batches_are_bounded_in_bytes_and_hold_at_least_a_row() -> None:
    """Rows are written while they are made: no more than a batch of them is held."""
    assert streamed([ROW] * 6, batch_bytes=2 * ROW_BYTES)[1] == [2, 2, 2]
    assert streamed([ROW] * 3, batch_bytes=1)[1] == [1, 1, 1]
    made = []

    def rows() -> Any:
        for index in range(3):
            made.append(index)
            yield ROW

    pieces = arrow_stream(rows(), batch_bytes=1)
    next(pieces)
    assert made == [0]


def test_numbers_have_the_types_that_trainers_expect() -> None:
    """Not those of JSON."""
    table, _, _ = streamed([ROW])

    types = {name: str(table.schema.field(name).type) for name in ("token_ids", "loss_mask", "logprobs", "reward")}
    expected = ["list<item: uint32>", "list<item: uint8>", "list<item: float>", "double"]
    assert list(types.values()) == expected


def test_the_footer_is_metadata_of_a_last_empty_batch_and_of_the_file() -> None:
    """For readers of columns it is no row."""
    table, sizes, metadata = streamed([ROW, ROW], FOOTER)
    assert (sizes, table.num_rows) == ([2, 0], 2)
    assert orjson.loads(metadata["gateway.footer"]) == FOOTER["footer"]

    file = BytesIO()
    write_parquet(file, [ROW, FOOTER])
    file.seek(0)
    assert orjson.loads(parquet.read_metadata(file).metadata[b"gateway.footer"]) == FOOTER["footer"]
    assert streamed([])[0].num_rows == 0


def test_nothing_follows_the_end_of_a_stream() -> None:
    """A reader of the first would not see the second."""
    stream = b"".join(arrow_stream([]))
    assert list(read_arrow(BytesIO(stream))) == []
    with pytest.raises(ValueError, match="more follows the end"):
        list(read_arrow(BytesIO(stream + stream)))


def test_a_field_without_a_column_is_refused() -> None:
    """To leave it out would break the certificate."""
    with pytest.raises(ValueError, match="a row has mood, for which there is no column"):
        streamed([ROW | {"mood": "good"}])


def test_without_the_package_the_remedy_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is an extra."""
    monkeypatch.setitem(sys.modules, "pyarrow", None)

    with pytest.raises(ConfigError, match=r"pip install 'rollout-gateway\[parquet\]'"):
        next(arrow_stream([]))
