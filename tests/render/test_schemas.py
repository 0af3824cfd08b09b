"""What a schema says of a parameter's types, however it says it."""

import pytest

from gateway.render.schemas import Schemas

COLOURS = {"enum": ["red", "green"], "type": "string"}


def tool(**properties):
    parameters = {"properties": properties, "$defs": {"Colour": COLOURS, "Loop": {"$ref": "#/$defs/Loop"}}}
    return {"type": "function", "function": {"name": "paint", "parameters": parameters}}


@pytest.mark.parametrize(
    ("schema", "kinds"),
    [
        ({"type": "integer"}, {"integer"}),
        ({"type": ["string", "null"]}, {"string", "null"}),
        ({"enum": ["a", "b"]}, {"string"}),
        (
            {"enum": ["a", 1, None, True, 0.5, [], {}]},
            {"string", "integer", "null", "boolean", "number", "array", "object"},
        ),
        ({"const": "a"}, {"string"}),
        ({"$ref": "#/$defs/Colour"}, {"string"}),
        ({"allOf": [{"$ref": "#/$defs/Colour"}, {"description": "of it"}]}, {"string"}),
        ({"allOf": [{"type": ["string", "null"]}, {"type": ["string", "integer"]}]}, {"string"}),
        ({"anyOf": [{"type": "boolean"}, {"type": "null"}]}, {"boolean", "null"}),
        ({"oneOf": [{"type": "number"}, {"$ref": "#/$defs/Colour"}]}, {"number", "string"}),
    ],
)
def test_a_schema_says_its_types(schema, kinds):
    """As pydantic and people write it."""
    assert Schemas.of([tool(colour=schema)], "paint").kinds_of("colour") == kinds


@pytest.mark.parametrize(
    "schema",
    [
        {},
        {"description": "anything"},
        {"anyOf": [{"type": "string"}, {}]},
        {"allOf": [{}]},
        {"$ref": "#/$defs/Nowhere"},
        {"$ref": "#/$defs/Loop"},
        {"$ref": "elsewhere.json"},
        {"type": 5},
        {"type": []},
        {"type": ["string", 5]},
        True,
        None,
    ],
)
def test_a_schema_that_says_none_allows_any(schema):
    """References that lead nowhere, or in a circle, included."""
    assert Schemas.of([tool(colour=schema)], "paint").kinds_of("colour") is None


@pytest.mark.parametrize(
    "tools", [None, [], [tool(colour=COLOURS)], [{"function": 5}], [{"name": "draw", "parameters": 5}]]
)
def test_a_tool_that_is_not_offered_says_nothing(tools):
    """The agent answers its calls."""
    assert Schemas.of(tools, "draw").kinds_of("colour") is None
