"""The description of routes is whole."""

from collections.abc import Iterator
from typing import Any

import orjson
import pytest

from gateway import __version__
from gateway.wire.openapi import Route, describe
from gateway.wire.operations import OPERATIONS


@pytest.fixture(scope="module")
def told() -> dict[str, Any]:
    """The description of all routes."""
    made: dict[str, Any] = orjson.loads(describe(tuple(Route(*where, "What it does.") for where in OPERATIONS)))
    return made


def test_it_says_of_what_it_is_and_of_which_version(told: dict[str, Any]):
    """That it is valid is a test of what an application answers: tests/edge/test_description."""
    assert told["openapi"].startswith("3.1.")
    assert told["info"]["version"] == __version__


def test_every_operation_is_there_and_named_once(told: dict[str, Any]):
    """By method and path."""
    paths = told["paths"]
    there = {(method.upper(), path): said for path, methods in paths.items() for method, said in methods.items()}
    assert there.keys() == OPERATIONS.keys()
    names = [said["operationId"] for said in there.values()]
    assert sorted(names) == sorted(set(names))


def references(value: Any) -> Iterator[str]:
    """Every reference in a description, wherever it stands."""
    if isinstance(value, dict):
        yield from [value["$ref"]] if "$ref" in value else []
        value = list(value.values())
    if isinstance(value, list):
        for item in value:
            yield from references(item)


def test_every_reference_names_a_component_and_every_component_is_referred_to(told: dict[str, Any]):
    """Nothing is described that no route has."""
    named = set(references(told))
    components = {
        f"#/components/{kind}/{name}" for kind in ("schemas", "responses") for name in told["components"][kind]
    }
    assert named == components


def test_no_internal_name_is_shown(told: dict[str, Any]):
    """Neither of modules nor of what is private in them."""
    text = orjson.dumps(told).decode()
    assert "gateway__" not in text
    assert not [name for name in told["components"]["schemas"] if name.startswith("_")]


def test_what_is_open_asks_for_no_key_and_refuses_nobody(told: dict[str, Any]):
    """Every other route is opened by a key, of one of two kinds."""
    for (method, path), operation in OPERATIONS.items():
        said = told["paths"][path][method.lower()]
        keys = {role for way in said["security"] for roles in way.values() for role in roles}
        assert keys == ({operation.opens} - {"nobody's"})
        assert ("401" in said["responses"]) == bool(keys)
        assert ("403" in said["responses"]) == (keys == {"admin"})


def test_a_route_of_which_nothing_is_said_is_no_part_of_a_description():
    """It is an error that names it."""
    with pytest.raises(KeyError, match="/nowhere"):
        describe((Route("GET", "/nowhere", "?"),))
