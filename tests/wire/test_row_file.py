"""Files of rows: the suffix says which form they have."""

import sys
from pathlib import Path

import orjson
import pytest

from gateway.errors import ConfigError
from gateway.wire.row_file import check_form, count_items, has_columns, need_readable, read_items, write_items

GOLDEN = next(iter(sorted((Path(__file__).parent / "golden" / "rows").glob("*.ndjson"))))
ITEMS = [orjson.loads(line) for line in GOLDEN.read_bytes().splitlines()]


@pytest.mark.parametrize("name", ["rows.ndjson", "rows.parquet", "rows.arrow"])
def test_what_is_written_is_read_again(tmp_path: Path, name: str) -> None:
    """Of a file that is there, lines are counted; of columns nobody knows how many rows there are."""
    path = tmp_path / name
    check_form(path)
    with path.open("wb") as out:
        write_items(path, out, ITEMS)

    *rows, footer = read_items(path)
    assert (len(rows), footer) == (len(ITEMS) - 1, ITEMS[-1])
    assert [row["certificate"] for row in rows] == [row["certificate"] for row in ITEMS[:-1]]
    assert count_items(path) == (None if has_columns(path) else len(ITEMS))


def test_a_file_that_is_not_there_is_missed(tmp_path: Path) -> None:
    """By its name; one that is there is no matter of words."""
    need_readable(GOLDEN)
    with pytest.raises(ConfigError, match="none cannot be read: No such file or directory"):
        need_readable(tmp_path / "none")


def test_a_name_of_no_form_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """And one of columns, where they cannot be written."""
    with pytest.raises(ConfigError, match=r"must end in .ndjson, .parquet or .arrow"):
        check_form(Path("rows.csv"))
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    check_form(Path("rows.ndjson"))
    with pytest.raises(ConfigError, match="pip install"):
        check_form(Path("rows.arrow"))


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        (b'{"row_id":1}\n\n{"row_id":2}\n', [{"row_id": 1}, {"row_id": 2}]),
        (b'{"data":[{"row_id":1}],"next":null}', [{"row_id": 1}]),
        (b'[\n{"row_id":1}\n]', [{"row_id": 1}]),
    ],
)
def test_lines_and_pages_are_told_apart(tmp_path: Path, written: bytes, expected: list[object]) -> None:
    """By what they hold."""
    path = tmp_path / "rows.json"
    path.write_bytes(written)
    assert list(read_items(path)) == expected


@pytest.mark.parametrize(
    ("name", "written", "why"),
    [
        ("rows.json", b"nothing", "rows.json cannot be read"),
        ("rows.json", b"4", "neither rows"),
        ("rows.json", b"[4]", "it holds a int where a row is due"),
        ("rows.arrow", b"nothing", "rows.arrow cannot be read"),
        ("rows.parquet", b"nothing", "rows.parquet cannot be read"),
    ],
)
def test_what_is_no_file_of_rows_is_refused(tmp_path: Path, name: str, written: bytes, why: str) -> None:
    """With its name; as is one that is not there."""
    path = tmp_path / name
    with pytest.raises(ConfigError, match="cannot be read"):
        list(read_items(path))
    path.write_bytes(written)
    with pytest.raises(ConfigError, match=why):
        list(read_items(path))
