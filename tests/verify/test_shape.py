"""What must be there is what the schema says."""

import json
from pathlib import Path
from typing import Any

import pytest

from gateway.verify import shape

SCHEMA = json.loads((Path(__file__).parents[2] / "docs" / "row.schema.json").read_text())["$defs"]
CERTIFICATE = SCHEMA["certificate"]
FOOTER = SCHEMA["footer"]["properties"]["footer"]


@pytest.mark.parametrize(
    ("kinds", "schema"),
    [
        (shape.ROW, SCHEMA["row"]),
        (shape.TURN, SCHEMA["turn"]),
        (shape.SPAN, SCHEMA["span"]),
        (shape.CERTIFICATE, CERTIFICATE),
        (shape.SELECTION, CERTIFICATE["properties"]["selection"]),
        (shape.RENDERER, CERTIFICATE["properties"]["renderer"]),
        (shape.ARRAYS, CERTIFICATE["properties"]["arrays"]),
        (shape.CERTIFIED_TURN, CERTIFICATE["properties"]["turns"]["items"]),
        (shape.EXCLUDED, SCHEMA["excluded"]),
        (shape.FOOTER, FOOTER),
    ],
)
def test_verify_and_the_schema_demand_the_same_fields(kinds: Any, schema: Any) -> None:
    """Neither knows of one that the other does not; a few of the schema's may be absent."""
    assert sorted(kinds) == sorted(schema["required"])
    assert schema["properties"].keys() - kinds.keys() <= {"loss_weights", "teacher_logprobs"}
