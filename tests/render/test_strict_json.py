"""JSON that every client reads alike."""

import json

import pytest

from gateway.render.strict_json import MAX_DEPTH, read, strict_object


@pytest.mark.parametrize(
    "text",
    [
        *("NaN", "[Infinity]", '{"a": -Infinity}', "1e999", '"\\ud800"', '{"\\udfff": 1}', '"\ud800"'),
        *('{"a": 1, "a": 1}', '[{"b": {"a": 1, "a": 2}}]', "", "{", "{} {}", "'a'", "1" * 5000),
        *("[" * depth + "]" * depth for depth in (MAX_DEPTH + 1, 100_000)),
    ],
    ids=lambda text: ascii(text)[:24],
)
def test_what_readers_disagree_about_is_no_json(text):
    """Not finite, not Unicode, not unique, not JSON at all, or too deep."""
    with pytest.raises(ValueError):
        read(text)


def test_other_json_is_read_as_it_is():
    """To the greatest depth."""
    assert read(' {"a": [1, 2.5, null, true, "é\\ud83d\\ude00"]}\n') == {"a": [1, 2.5, None, True, "é😀"]}
    assert read("[" * MAX_DEPTH + "]" * MAX_DEPTH)


NO_OBJECTS: list[object] = [
    *(None, [], 5, "null", "[]", "5", "", "x", '{"a": 1, "a": 2}', json.dumps("{}")),
    *({"a": float("inf")}, {"a": "\ud800"}, {"a": object()}, {"a": {1, 2}}),
]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({}, "{}"),
        ("{}", "{}"),
        ('{"a":"é"}', '{"a": "é"}'),
        ({"a": [1, {"b": None}]}, '{"a": [1, {"b": null}]}'),
        *((given, None) for given in NO_OBJECTS),
    ],
    ids=lambda value: ascii(value)[:24],
)
def test_arguments_are_an_object_or_the_text_of_one(arguments, text):
    """As JSON text, in the letters that they are written in."""
    assert strict_object(arguments) == text


def test_a_value_in_itself_is_no_object_for_a_client():
    """It has no end."""
    endless: dict[str, object] = {}
    endless["a"] = endless
    assert strict_object(endless) is None
