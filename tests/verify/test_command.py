"""``gateway verify`` as it is called."""

import json
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from gateway.cli import cli
from tests.verify.writer import lines


@pytest.fixture
def run(tmp_path: Path):
    """Verify a file of this content."""

    def verify(content: bytes, *flags: str) -> Result:
        file = tmp_path / "rows.ndjson"
        file.write_bytes(content)
        return CliRunner().invoke(cli, ["verify", str(file), *flags])

    return verify


def test_a_good_file_is_one_line_and_exit_0(exports, run):
    """How many rows, turns and trained tokens there are."""
    answer = run(exports["once"].content)

    assert (0, "") == (answer.exit_code, answer.stderr)
    trained = exports["once"].rows[0]["rollout_trainable_tokens"]
    assert f"4 rows, 8 turns, {trained} trained tokens: verified\n" == answer.stdout


def test_a_bad_file_is_one_line_and_exit_1(exports, run, tmp_path):
    """File, row, turn, position; what was expected and what was found."""
    rows = exports["once"].rows
    rows[1]["loss_mask"][3] = 1
    turn, row = rows[1]["turns"][0]["turn_id"], rows[1]["row_id"]
    answer = run(lines(rows))

    assert 1 == answer.exit_code
    assert f"{tmp_path}/rows.ndjson: row 2 ({row}), turn {turn}, loss_mask[3]: expected 0, found 1\n" == answer.stdout


def test_json_is_one_object_with_all_of_it(exports, run, tmp_path):
    """Good or bad."""
    good = json.loads(run(exports["once"].content, "--json").stdout)
    assert {"rows": 4, "turns": 8, "verified": True, "warnings": [], "failure": None}.items() <= good.items()

    rows = exports["once"].rows
    rows[1]["loss_mask"][3] = 1
    answer = run(lines(rows), "--json")
    bad = json.loads(answer.stdout)
    assert 1 == answer.exit_code
    assert {"file": f"{tmp_path}/rows.ndjson", "rows": 1, "verified": False}.items() <= bad.items()
    assert {
        "row": 2,
        "row_id": rows[1]["row_id"],
        "turn_id": rows[1]["turns"][0]["turn_id"],
        "position": "loss_mask[3]",
        "expected": 0,
        "found": 1,
    } == bad["failure"]


def test_a_missing_footer_is_a_warning_or_with_strict_a_failure(exports, run):
    """Without it nothing tells that rows are missing at the end."""
    plain, strict = run(lines(exports["once"].rows)), run(lines(exports["once"].rows), "--strict")

    assert 0 == plain.exit_code
    assert plain.stderr.startswith("gateway verify: ")
    assert "footer: expected a footer, which tells missing rows" in plain.stderr
    assert (1, "") == (strict.exit_code, strict.stderr)
    assert "footer: expected a footer" in strict.stdout


def test_a_missing_extra_is_exit_2_with_the_remedy(run, monkeypatch):
    """Nothing is wrong with the file."""
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    answer = run(b"PAR1")

    assert (2, "") == (answer.exit_code, answer.stdout)
    assert "pip install 'rollout-gateway[parquet]'" in answer.stderr


def test_a_file_that_is_not_there_is_exit_2(tmp_path):
    """With its name: nothing was looked at, so nothing is wrong with it."""
    answer = CliRunner().invoke(cli, ["verify", str(tmp_path / "none")])

    assert (2, "") == (answer.exit_code, answer.stdout)
    assert f"gateway verify: {tmp_path}/none cannot be read: No such file or directory\n" == answer.stderr
