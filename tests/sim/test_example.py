"""Values made from JSON schemas are of the types and within the bounds that the schema names."""

from random import Random

import pytest

from gateway.sim.example import example

WORDS = ["alpha", "beta"]


def of(schema, seed=0):
    """An example."""
    return example(schema, WORDS, Random(seed))


@pytest.mark.parametrize(
    ("schema", "holds"),
    [
        ({"const": 5}, lambda value: value == 5),
        ({"enum": ["x", None]}, lambda value: value in ("x", None)),
        ({"type": "integer"}, lambda value: isinstance(value, int)),
        ({"type": "integer", "minimum": 7, "maximum": 8}, lambda value: value in (7, 8)),
        ({"type": "integer", "maximum": -3}, lambda value: value <= -3),
        ({"type": "integer", "minimum": 40}, lambda value: value >= 40),
        ({"type": "number", "minimum": 2, "maximum": 3}, lambda value: 2 <= value <= 3),
        ({"type": "boolean"}, lambda value: isinstance(value, bool)),
        ({"type": "null"}, lambda value: value is None),
        ({"type": ["string", "null"]}, lambda value: isinstance(value, str)),
        ({"anyOf": [{"type": "null"}, {"type": "string"}]}, lambda value: value is None),
        ({"type": "array", "items": {"type": "integer"}, "minItems": 3}, lambda value: len(value) == 3),
        ({"type": "array"}, lambda value: value[0] in WORDS),
        ({"$ref": "#/$defs/n", "$defs": {"n": {"type": "boolean"}}}, lambda value: isinstance(value, bool)),
        ({"$ref": "#/nowhere/at/all"}, lambda value: value in WORDS),
        (True, lambda value: value in WORDS),
    ],
)
def test_a_value_is_what_its_schema_allows(schema, holds):
    """Over several seeds."""
    assert all(holds(of(schema, seed)) for seed in range(20))


def test_required_properties_are_always_there_and_others_sometimes():
    """And nothing that the schema does not name."""
    schema = {"properties": {"a": {"type": "null"}, "b": {"type": "null"}}, "required": ["a"]}
    seen = {tuple(of(schema, seed)) for seed in range(20)}
    assert seen == {("a",), ("a", "b")}


def test_a_schema_that_refers_to_itself_ends():
    """Even where the reference is required at each level."""
    node = {"type": "object", "properties": {"next": {"$ref": "#"}}, "required": ["next"]}
    assert "next" in of(node)
