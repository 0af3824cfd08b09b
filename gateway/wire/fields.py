"""Typed reading of a JSON request: every ill value is an error that names its field."""

from collections.abc import Mapping
from typing import cast

import orjson

from gateway.core.types import JsonObject
from gateway.errors import BadRequest

MAX_DEPTH = 64
"""Levels of nesting in tools and template arguments; far beyond any schema, far below Python's recursion limit."""


def parse_object(body: bytes) -> "Fields":
    """The fields of a JSON object."""
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise BadRequest(f"the body is not valid JSON: {error}") from None
    if not isinstance(value, dict):
        raise BadRequest("the body must be a JSON object")
    return Fields(value, "")


class Fields:
    """A JSON object whose values are read by type; ``null`` counts as absent."""

    def __init__(self, values: JsonObject, path: str) -> None:
        self._values = values
        self.path = path
        """Where the object stands in the body, such as ``messages[2].``; empty at the top."""

    def error(self, name: str, message: str) -> BadRequest:
        """An error about the field `name`."""
        return BadRequest(f"{self.path}{name} {message}", param=f"{self.path}{name}")

    def raw(self, name: str) -> object:
        """The value as it came; ``None`` when absent."""
        return self._values.get(name)

    def text(self, name: str) -> str | None:
        """A string."""
        value = self.raw(name)
        if value is None or isinstance(value, str):
            return value
        raise self.error(name, "must be a string")

    def integer(self, name: str, low: int, high: int = 2**63 - 1) -> int | None:
        """A whole number between `low` and `high`, both included."""
        value = self.raw(name)
        if value is None:
            return None
        if not isinstance(value, int) or isinstance(value, bool):
            raise self.error(name, "must be an integer")
        if not low <= value <= high:
            raise self.error(name, f"must be between {low} and {high}")
        return value

    def number(self, name: str, low: float, high: float) -> float | None:
        """A number between `low` and `high`, both included."""
        value = self.raw(name)
        if value is None:
            return None
        if not isinstance(value, int | float) or isinstance(value, bool):
            raise self.error(name, "must be a number")
        if not low <= value <= high:
            raise self.error(name, f"must be between {low} and {high}")
        return value

    def flag(self, name: str) -> bool:
        """A boolean; absent counts as false."""
        value = self.raw(name)
        if value is None:
            return False
        if not isinstance(value, bool):
            raise self.error(name, "must be a boolean")
        return value

    def mapping(self, name: str) -> JsonObject:
        """A JSON object, empty when absent, of no more than `MAX_DEPTH` levels."""
        value = self.raw(name)
        return {} if value is None else self.nested(name, value).whole()

    def whole(self) -> JsonObject:
        """The object itself, of no more than `MAX_DEPTH` levels."""
        if _too_deep(self._values):
            name = self.path.removesuffix(".")
            raise BadRequest(f"{name} must not be nested deeper than {MAX_DEPTH} levels", param=name)
        return self._values

    def objects(self, name: str) -> "list[Fields]":
        """A list of JSON objects, empty when absent."""
        return [self.nested(f"{name}[{i}]", item) for i, item in enumerate(self.items(name))]

    def items(self, name: str) -> list[object]:
        """A list, empty when absent."""
        value = self.raw(name)
        if value is None:
            return []
        if not isinstance(value, list):
            raise self.error(name, "must be a list")
        return value

    def nested(self, name: str, value: object) -> "Fields":
        """The fields of an object found at `name`."""
        if not isinstance(value, Mapping):
            raise self.error(name, "must be an object")
        return Fields(cast(JsonObject, value), f"{self.path}{name}.")


def _too_deep(value: object) -> bool:
    level = [value]
    for _ in range(MAX_DEPTH):
        level = [
            child
            for node in level
            if isinstance(node, dict | list)
            for child in (node.values() if isinstance(node, dict) else node)
        ]
        if not level:
            return False
    return True
