"""Described bodies beside what reads them: values of every kind, and a validator of the description's schemas."""

from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any

import orjson
from jsonschema import Draft202012Validator

from gateway.errors import GatewayError
from gateway.wire.openapi import Route, describe
from gateway.wire.operations import OPERATIONS

Json = dict[str, Any]

_FUNCTION = {"type": "function", "function": {"name": "f"}}
_SCHEMA = {"type": "json_schema", "json_schema": {"schema": {"type": "object"}}}
_PATTERN = {"max_pattern_size": 8, "min_count": 2}
_NUMBERS = (
    0,
    1,
    -1,
    2,
    4,
    20,
    21,
    101,
    128,
    129,
    4097,
    1 << 32,
    2**63 - 1,
    2**63,
    -(2**63),
    0.001,
    0.5,
    -2.5,
    1e9 + 0.5,
)
_TEXTS = ("", "x", "auto", "none", "required", "all", "hold", "cut", "agent", "unknown", "drop", "new_sessions")
_LONG = (
    "x" * 257,
    "x" * 513,
    "x" * 1025,
    "http://127.0.0.1:8000",
    "http://h:1#dp=4",
    "ftp://h",
    "http://h?x",
    "http://h:65536",
    "http://a..b",
)
_LISTS: tuple[object, ...] = (
    *([], [None], [0], [-1], [1 << 32], [True], [1.5], ["x"], [""], ["x"] * 4, ["x"] * 5, ["x"] * 129, ["x" * 1025]),
    *(
        [{}],
        [{"role": "user"}],
        [{"role": "tool"}],
        [{"role": "x"}],
        [_FUNCTION],
        [{"type": "function"}],
        [{"type": "x"}],
    ),
)
_OBJECTS: tuple[object, ...] = (
    *({}, {"x": 1}, {"1": 1}, {"1": None}, {"1": -101}, {"1": "x"}, {"include_usage": True}, {"include_usage": 1}),
    *({"type": "text"}, {"type": "json_object"}, {"type": "json_object", "schema": []}, {"type": "x"}, {"type": 1}),
    *(_SCHEMA, {"type": "json_schema"}, {"type": "json_schema", "json_schema": {}}, _FUNCTION, {"type": "function"}),
    *({"json": {}}, {"json": ""}, {"json": 1}, {"regex": "x"}, {"regex": ""}, {"choice": ["x"]}, {"choice": []}),
    *({"grammar": "x"}, {"json_object": True}, {"json_object": False}, {"structural_tag": "x"}, {"choice": [1]}),
    *({"temperature": 1.0}, {"temperature": -1}, {"stop": "x"}, {"max_tokens": 0}, {"max_turns": 1}, {"max_turns": 0}),
    *(_PATTERN, {**_PATTERN, "min_count": 1}, {**_PATTERN, "min_pattern_size": -1}, {**_PATTERN, "x": 1}),
)
VALUES: tuple[object, ...] = (None, True, False, *_NUMBERS, *_TEXTS, *_LONG, *_LISTS, *_OBJECTS)
"""Of every kind, at bounds and beyond them."""


@cache
def description() -> Json:
    """The description of all routes."""
    told: Json = orjson.loads(describe(tuple(Route(method, path, "A route.") for method, path in OPERATIONS)))
    return told


@cache
def validator(name: str) -> Draft202012Validator:
    """What judges by the schema of that name."""
    components = {"components": description()["components"]}
    return Draft202012Validator({**components, "$ref": f"#/components/schemas/{name}"})


def is_read(decode: Callable[[bytes], object], body: Mapping[str, object]) -> bool:
    """Whether a body is taken by what reads it."""
    try:
        decode(orjson.dumps(body))
    except GatewayError:
        return False
    return True


def differing(name: str, decode: Callable[[bytes], object], base: Json) -> Iterator[tuple[Json, bool]]:
    """The bodies of which a schema says another thing than what reads them, each with whether it is read.

    They are those of `base` with one field in it of another value, for each field of the schema and each value.
    """
    components = description()["components"]
    schema, whole = components["schemas"][name], validator(name)
    assert is_read(decode, base)
    assert whole.is_valid(base)
    for field, of_field in schema["properties"].items():
        alone = Draft202012Validator({"components": components, **of_field})  # so much sooner than the whole
        for value in VALUES:
            body = {**base, field: value}
            valid = whole.is_valid(body) if "dependentRequired" in schema else alone.is_valid(value)
            if (read := is_read(decode, body)) != valid:
                yield {field: value}, read


def fields_of(name: str) -> set[str]:
    """The fields of a schema."""
    return set(description()["components"]["schemas"][name]["properties"])


TEXTS = (
    "",
    "0",
    "1",
    "7",
    "1000",
    "1001",
    "-1",
    "x",
    "true",
    "false",
    "all",
    "latest",
    "aborted",
    "include",
    "exclude",
)
MORE_TEXTS = (
    "exact",
    "exact,greedy",
    "exact,x",
    "once",
    "split",
    "json",
    "base64",
    "base85",
    "open",
    "finished",
    "9" * 16,
)


def differing_parameters(
    method: str, path: str, decode: Callable[[dict[str, str]], object], strange: frozenset[str] = frozenset()
) -> Iterator[tuple[Json, bool]]:
    """As `differing`, of the parameters of a URL; but for those that are `strange`."""
    components = {"components": description()["components"]}
    for parameter in description()["paths"][path][method]["parameters"]:
        if parameter["in"] != "query" or parameter["name"] in strange:
            continue
        judge = Draft202012Validator({**components, **parameter["schema"]})
        for text in (*TEXTS, *MORE_TEXTS):
            given = {parameter["name"]: text}
            try:
                decode(given)
                read = True
            except GatewayError:
                read = False
            if read != judge.is_valid(_parsed(text, parameter["schema"].get("type"))):
                yield given, read


def _parsed(text: str, kind: str | None) -> object:
    if kind == "array":
        return text.split(",")
    return int(text) if kind == "integer" and text.removeprefix("-").isdecimal() else text
