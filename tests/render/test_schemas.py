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


TEXT = {"type": "string"}


@pytest.mark.parametrize(
    "parameters",
    [
        {"properties": {"a": TEXT}},
        {"additionalProperties": TEXT},
        {"properties": {"b": {"type": "integer"}}, "additionalProperties": TEXT},
        {"$ref": "#/$defs/A", "$defs": {"A": {"properties": {"a": TEXT}}}},
        {"allOf": [{"properties": {"b": {}}}, {"properties": {"a": TEXT}}]},
        {"properties": {"a": {"$ref": "#/$defs/x~1y~0z"}}, "$defs": {"x/y~z": TEXT}},
        {"properties": {"a": {"$ref": "#/$defs/all/1"}}, "$defs": {"all": [{}, TEXT]}},
        {"properties": {"a": {"$ref": "#/properties/b"}, "b": TEXT}},
    ],
)
def test_a_property_is_found_wherever_schemas_have_it(parameters):
    """By reference, among parts, and among those that are not named."""
    assert Schemas(parameters).kinds_of("a") == frozenset({"string"})


@pytest.mark.parametrize(
    "parameters",
    [
        {"$ref": "#"},
        {"allOf": [5, {}]},
        {"additionalProperties": True},
        {"properties": {"a": {"$ref": "#/$defs/all/9"}}, "$defs": {"all": []}},
        {"properties": {"a": {"$ref": "#/$defs/all/x"}}, "$defs": {"all": []}},
    ],
)
def test_a_property_that_is_nowhere_may_be_anything(parameters):
    """References in a circle included."""
    assert Schemas(parameters).kinds_of("a") is None
