"""Rows and turns are described by the file that exports are held to."""

from pathlib import Path
from typing import Any

import orjson
import pytest

from gateway.core.fate import fates
from gateway.wire import row_schema
from gateway.wire.row_schema import row_schemas
from gateway.wire.turns import ids_of, told_turn
from tests.wire.bodies import validator
from tests.wire.rows import QUERIES, export, talk


@pytest.mark.parametrize("query", QUERIES.values())
def test_an_exported_row_is_as_it_is_described(query: str):
    """In every form, and the footer behind it."""
    *rows, footer = map(orjson.loads, export(query).splitlines())
    for row in rows:
        validator("Row").validate(row)
    validator("RowFooter").validate(footer)
    assert rows


def test_a_turn_is_as_it_is_described():
    """With its ids and without; it is not in a row."""
    ledger = talk().ledger
    fate, judge = fates(ledger), validator("Turn")
    for turn in ledger.turns:
        told: Any = orjson.loads(orjson.dumps(told_turn(turn, fate(turn))))
        judge.validate(told)
        judge.validate(told | ids_of(turn))
        assert not judge.is_valid(told | {"trained": True})


def test_nothing_refers_to_what_a_description_does_not_have():
    """Every reference names a component."""
    schemas = row_schemas()
    text = orjson.dumps(schemas).decode()
    named = {part.partition('"')[0] for part in text.split("#/components/schemas/")[1:]}
    assert named <= schemas.keys()
    assert "$defs" not in text


def test_an_installed_package_has_a_file_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Which comes first; there is no source tree beside it."""
    installed = tmp_path / "row.schema.json"
    turn = {"properties": {"start": {}, "turn_id": {}}, "required": ["start", "turn_id"]}
    installed.write_bytes(orjson.dumps({"$defs": {"row": {}, "turn": turn}}))
    monkeypatch.setattr(row_schema, "_PLACES", (installed, tmp_path / "absent.json"))

    assert row_schemas().keys() == {"Row", "RowTurn", "Turn"}
    assert row_schemas()["Turn"]["required"] == ["turn_id"]
