"""Typed reading of a JSON request: every ill value is an error that names its field."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar, cast

import orjson

from gateway.core.types import JsonObject
from gateway.errors import BadRequest

T = TypeVar("T")

MAX_DEPTH = 64
"""Levels of nesting in tools and template arguments; far beyond any schema, far below Python's recursion limit."""

MAX_BYTES = 1 << 20
"""JSON of one object that is passed on as it is."""
MAX_ITEMS = 4096
"""Items of one list, unless it is of another kind."""


def parse_object(body: bytes) -> "Fields":
    """The fields of a JSON object. Of equal keys the last wins, as in every JSON reader that agents use.

    Numbers beyond all doubles, NaN, lone surrogates, invalid UTF-8 and nesting that would exhaust a stack
    are no JSON here.
    """
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

    def _typed(self, name: str, kind: type[T], what: str) -> T | None:
        value = self.raw(name)
        if value is None or (isinstance(value, kind) and (kind is bool or not isinstance(value, bool))):
            return value
        raise self.error(name, f"must be {what}")

    def _within(self, name: str, value: T | None, low: float, high: float) -> T | None:
        if isinstance(value, int | float) and not low <= value <= high:
            raise self.error(name, f"must be between {low} and {high}")
        return value

    def text(self, name: str, shortest: int = 0, longest: int | None = None) -> str | None:
        """A string, of `shortest` to `longest` characters."""
        value = self._typed(name, str, "a string")
        if value is not None and not shortest <= len(value) <= (longest or len(value)):
            many = f"at least {shortest}" if longest is None else f"between {shortest} and {longest}"
            raise self.error(name, f"must have {many} characters")
        return value

    def integer(self, name: str, low: int, high: int = 2**63 - 1) -> int | None:
        """A whole number between `low` and `high`, both included."""
        return self._within(name, self._typed(name, int, "an integer"), low, high)

    def number(self, name: str, low: float, high: float) -> float | None:
        """A number between `low` and `high`, both included."""
        value = self.raw(name)
        kind = int if isinstance(value, int) else float
        return self._within(name, self._typed(name, kind, "a number"), low, high)

    def flag(self, name: str) -> bool:
        """A boolean; absent counts as false."""
        return self.choice(name) or False

    def choice(self, name: str) -> bool | None:
        """A boolean, where its absence says something else than false."""
        return self._typed(name, bool, "a boolean")

    def one_of(self, name: str, words: Sequence[T]) -> T | None:
        """One of some words."""
        value = self.raw(name)
        if value is not None and value not in words:
            raise self.error(name, f"must be one of {', '.join(map(str, words))}")
        return cast(T | None, value)

    def names(self) -> Iterable[str]:
        """The names of the values, whether read or not."""
        return self._values

    def mapping(self, name: str, most_bytes: int = MAX_BYTES) -> JsonObject:
        """A JSON object, empty when absent, of no more than `MAX_DEPTH` levels and `most_bytes` as JSON."""
        value = self.raw(name)
        if value is None:
            return {}
        whole = self.nested(name, value).whole()
        if len(orjson.dumps(whole)) > most_bytes:
            raise self.error(name, f"must not be larger than {most_bytes} bytes")
        return whole

    def whole(self) -> JsonObject:
        """The object itself, of no more than `MAX_DEPTH` levels."""
        if _too_deep(self._values):
            name = self.path.removesuffix(".")
            raise BadRequest(f"{name} must not be nested deeper than {MAX_DEPTH} levels", param=name)
        return self._values

    def objects(self, name: str, most: int = MAX_ITEMS) -> "list[Fields]":
        """A list of at most so many JSON objects, empty when absent."""
        return [self.nested(f"{name}[{i}]", item) for i, item in enumerate(self.items(name, most))]

    def items(self, name: str, most: int = MAX_ITEMS) -> list[object]:
        """A list of at most so many items, empty when absent."""
        value = self._typed(name, list, "a list") or []
        if len(value) > most:
            raise self.error(name, f"must not hold more than {most} items")
        return value

    def nested(self, name: str, value: object) -> "Fields":
        """The fields of an object found at `name`."""
        if not isinstance(value, Mapping):
            raise self.error(name, "must be an object")
        return Fields(cast(JsonObject, value), f"{self.path}{name}.")


def _too_deep(value: object, allowed: int = MAX_DEPTH) -> bool:
    children = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return bool(children) and (not allowed or any(_too_deep(child, allowed - 1) for child in children))
