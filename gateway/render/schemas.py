"""What a tool's schema says of its parameters' types, as far as a call that is written without quotes needs it."""

from collections.abc import Iterable, Mapping, Sequence

from gateway.render.protocol import MessageDicts

Kinds = frozenset[str] | None
"""JSON types that a value may have; ``None`` when the schema does not say."""

_MAX_STEPS = 16
"""How far references are followed."""
_KINDS = {bool: "boolean", int: "integer", float: "number", str: "string", dict: "object", list: "array"}


class Schemas:
    """The parameters of one tool."""

    def __init__(self, parameters: object) -> None:
        self._root: Mapping[str, object] = parameters if isinstance(parameters, dict) else {}

    @classmethod
    def of(cls, tools: MessageDicts | None, name: str) -> "Schemas":
        """Those of the tool of that name; none where there is no such tool, or no schema."""
        for tool in tools or ():
            function = tool.get("function", tool)
            if isinstance(function, dict) and function.get("name") == name:
                return cls(function.get("parameters"))
        return cls(None)

    def kinds_of(self, parameter: str) -> Kinds:
        """The types that a parameter may have."""
        return self._kinds(self._property(self._root, parameter, _MAX_STEPS), _MAX_STEPS)

    def _property(self, schema: object, name: str, steps: int) -> object:
        """What a schema of an object says of one of its properties; ``None`` where it says nothing."""
        if not isinstance(schema, dict) or not steps:
            return None
        if isinstance(reference := schema.get("$ref"), str):
            return self._property(self._found(reference), name, steps - 1)
        properties, parts = schema.get("properties"), schema.get("allOf")
        if isinstance(properties, dict) and name in properties:
            return properties[name]
        found = (self._property(part, name, steps - 1) for part in parts) if isinstance(parts, list) else ()
        return next((one for one in found if one is not None), schema.get("additionalProperties"))

    def _kinds(self, schema: object, steps: int) -> Kinds:
        if not isinstance(schema, dict) or not steps:
            return None
        if isinstance(reference := schema.get("$ref"), str):
            return self._kinds(self._found(reference), steps - 1)
        if "type" in schema:
            return _types(schema["type"])
        if isinstance(values := schema.get("enum", [schema["const"]] if "const" in schema else None), list):
            return frozenset(_KINDS.get(type(value), "null") for value in values)
        for name in ("anyOf", "oneOf"):
            if isinstance(branches := schema.get(name), list):
                return _any(self._kinds(branch, steps - 1) for branch in branches)
        if isinstance(parts := schema.get("allOf"), list):
            return _all(self._kinds(part, steps - 1) for part in parts)
        return None

    def _found(self, reference: str) -> object:
        """What a reference into the tool's own schema leads to."""
        found: object = self._root
        for step in reference.removeprefix("#").split("/")[1:]:
            name = step.replace("~1", "/").replace("~0", "~")  # RFC 6901
            if isinstance(found, list):
                found = dict(enumerate(found)).get(int(name)) if name.isascii() and name.isdecimal() else None
            else:
                found = found.get(name) if isinstance(found, dict) else None
        return found


def _types(declared: object) -> Kinds:
    types = [declared] if isinstance(declared, str) else declared
    if not isinstance(types, Sequence) or not all(isinstance(kind, str) for kind in types):
        return None
    return frozenset(types) or None


def _any(each: Iterable[Kinds]) -> Kinds:
    """What one of several schemas allows: anything, if one of them does not say."""
    kinds = list(each)
    return None if None in kinds else frozenset().union(*(some for some in kinds if some)) or None


def _all(each: Iterable[Kinds]) -> Kinds:
    """What all of several schemas allow, of those that say."""
    kinds = [some for some in each if some is not None]
    return frozenset.intersection(*kinds) if kinds else None
