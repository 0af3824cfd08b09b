"""Rows and turns as ``/openapi.json`` describes them: made of `docs/row.schema.json`, which files are held to, too."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import orjson

from gateway.core.types import JsonObject

_GATEWAY = Path(__file__).parent.parent
_PLACES = (_GATEWAY / "row.schema.json", _GATEWAY.parent / "docs" / "row.schema.json")
"""In an installed package, and in the source tree."""
_DEFINED = "#/$defs/"
COMPONENTS = "#/components/schemas/"
_IN_A_ROW = ("start", "end", "trained", "masked_because")
"""What a turn has only where it stands in a row."""
_IDS: JsonObject = {
    "prompt_ids": {"type": "array", "items": {"type": "integer", "minimum": 0}, "description": "With ids=true."},
    "completion_ids": {"type": "array", "items": {"type": "integer", "minimum": 0}},
    "logprobs": {"type": "array", "items": {"type": "number", "maximum": 0}, "description": "Nats."},
}


def row_schemas() -> dict[str, JsonObject]:
    """The schemas by their names as components: `Row`, `RowFooter`, what they consist of, and `Turn`."""
    whole = next(place for place in _PLACES if place.exists())
    schemas = {_name(name): _moved(schema) for name, schema in orjson.loads(whole.read_bytes())["$defs"].items()}
    return {**schemas, "Turn": _alone(schemas["RowTurn"])}


def _name(defined: str) -> str:
    words = "".join(word.capitalize() for word in defined.split("_"))
    return words if words == "Row" else f"Row{words}"


def _moved(schema: Any) -> Any:
    """The same, where it refers to components."""
    if isinstance(schema, list):
        return [_moved(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        name: COMPONENTS + _name(value.removeprefix(_DEFINED)) if name == "$ref" else _moved(value)
        for name, value in schema.items()
    }


def _alone(turn: JsonObject) -> JsonObject:
    """A turn that is shown by itself."""
    properties = cast(Mapping[str, object], turn["properties"])
    kept = {name: value for name, value in properties.items() if name not in _IN_A_ROW}
    required = [name for name in cast(list[str], turn["required"]) if name not in _IN_A_ROW]
    said = {"description": "A turn as it was recorded.", "properties": {**kept, **_IDS}, "required": required}
    return {**turn, **said}
