"""A plausible value for a JSON schema."""

from collections.abc import Mapping, Sequence
from random import Random

from gateway.sim.personality import Json, section

_DEEP = 6
"""Schemas may refer to themselves; from this depth on values are as small as they can be."""


def example(schema: Mapping[str, object], words: Sequence[str], random: Random) -> object:
    """A value that `schema` allows, as far as types, bounds, choices and required properties go; text is of `words`.

    Patterns, formats and conditions are not looked at.
    """
    return _Examples(schema, words, random).of(schema, 0)


class _Examples:
    def __init__(self, root: Mapping[str, object], words: Sequence[str], random: Random) -> None:
        self.root, self.words, self.random = root, words, random

    def of(self, schema: object, depth: int) -> object:
        if not isinstance(schema, dict) or depth > 2 * _DEEP:
            return self.random.choice(self.words)
        if "const" in schema:
            return schema["const"]
        if isinstance(chosen := schema.get("enum"), list) and chosen:
            return self.random.choice(chosen)
        if isinstance(target := schema.get("$ref"), str):
            return self.of(self._target(target), depth + 1)
        for key in ("anyOf", "oneOf", "allOf"):
            if isinstance(choices := schema.get(key), list) and choices:
                return self.of(choices[0], depth + 1)
        return self._typed(schema, depth)

    def _typed(self, schema: Json, depth: int) -> object:
        kind = schema.get("type")
        match kind[0] if isinstance(kind, list) and kind else kind:
            case "integer":
                return self.random.randint(*self._bounds(schema))
            case "number":
                return round(self.random.uniform(*self._bounds(schema)), 1)
            case "boolean":
                return self.random.random() < 0.5
            case "null":
                return None
            case "array":
                least = schema.get("minItems")
                number = least if isinstance(least, int) else int(depth < _DEEP)
                return [self.of(schema.get("items"), depth + 1) for _ in range(number)]
            case "object" | None:
                return self._object(schema, depth)
        return " ".join(self.random.choices(self.words, k=self.random.randint(1, 3)))

    def _object(self, schema: Json, depth: int) -> Json:
        required = schema.get("required")
        needed = required if isinstance(required, list) else []
        wanted = [
            name
            for name in section(schema, "properties")
            if name in needed or (depth < _DEEP and self.random.random() < 0.5)
        ]
        return {name: self.of(section(schema, "properties")[name], depth + 1) for name in wanted}

    def _bounds(self, schema: Json) -> tuple[int, int]:
        low, high = schema.get("minimum"), schema.get("maximum")
        first = int(low) if isinstance(low, int | float) else min(1, int(high)) if isinstance(high, int | float) else 1
        return first, max(first, int(high)) if isinstance(high, int | float) else first + 9

    def _target(self, reference: str) -> object:
        found: object = self.root
        for part in reference.removeprefix("#/").split("/"):
            found = found.get(part) if isinstance(found, dict) else None
        return found
