"""What an answer is bound to: `response_format`, `structured_outputs` and `tool_choice` of a chat request."""

from collections.abc import Callable, Mapping, Sequence
from typing import cast

from gateway.core.types import JsonObject
from gateway.wire.fields import Fields

_MAX_BYTES = 1 << 18
"""JSON of a constraint: engines compile it, which takes them far longer than us."""
_MAX_CHOICES = 4096

_Check = Callable[[object], bool]


def _is_text(value: object) -> bool:
    return isinstance(value, str) and value != ""


def _is_choices(value: object) -> bool:
    return isinstance(value, list) and 0 < len(value) <= _MAX_CHOICES and all(isinstance(item, str) for item in value)


_KINDS: Mapping[str, tuple[_Check, str]] = {
    "json": (lambda value: _is_text(value) or isinstance(value, dict), "a JSON schema, as an object or as text"),
    "regex": (_is_text, "a non-empty string"),
    "choice": (_is_choices, f"a list of up to {_MAX_CHOICES} strings"),
    "grammar": (_is_text, "a non-empty string"),
    "json_object": (lambda value: value is True, "true"),
    "structural_tag": (_is_text, "a structural tag, as text"),
}
"""The grammars that vLLM knows, and what each must be."""


_ELSEWHERE: Mapping[str, str] = {
    **{f"guided_{kind}": f"structured_outputs.{kind}" for kind in ("json", "regex", "choice", "grammar")},
    "functions": "tools",
    "function_call": "tool_choice",
}
"""Older words for the same, which an engine in tokens mode would never see."""
_NOTHING: tuple[object, ...] = (None, "", [], {}, "auto", "none")
"""What asks for nothing."""


def read_constraint(fields: Fields, tools: Sequence[JsonObject]) -> tuple[JsonObject | None, tuple[str, ...]]:
    """What the whole answer must be, as vLLM's `structured_outputs`, or else the tools of which it must call one.

    Raises:
        BadRequest: a value is ill, names a tool that is not offered, or contradicts another.
    """
    for name, instead in _ELSEWHERE.items():
        if fields.raw(name) not in _NOTHING:
            raise fields.error(name, f"is not offered, and would not bind the answer: use {instead}")
    shape, outputs, forced = _response_format(fields), _structured_outputs(fields), _forced_tools(fields, tools)
    asked = {"response_format": shape, "structured_outputs": outputs, "tool_choice": forced or None}
    names = [name for name, value in asked.items() if value is not None]
    if len(names) > 1:
        raise fields.error(names[1], f"cannot be combined with {names[0]}: each decides the whole answer")
    return shape or outputs, forced


def _response_format(fields: Fields) -> JsonObject | None:
    given = fields.nested("response_format", fields.mapping("response_format", _MAX_BYTES))
    match given.raw("type"):
        case None | "text":
            return None
        case "json_object":
            schema = given.mapping("schema")
            return {"json": schema} if schema else {"json_object": True}
        case "json_schema":
            named = given.nested("json_schema", given.raw("json_schema"))
            if not isinstance(named.raw("schema"), Mapping):
                raise named.error("schema", "must be a JSON schema")
            return {"json": named.mapping("schema")}
    raise given.error("type", 'must be "text", "json_object" or "json_schema"')


def _structured_outputs(fields: Fields) -> JsonObject | None:
    whole = fields.mapping("structured_outputs", _MAX_BYTES)
    given = fields.nested("structured_outputs", whole)
    kinds = [kind for kind in _KINDS if given.raw(kind) is not None]
    if not whole:
        return None
    if len(kinds) != 1:
        raise fields.error("structured_outputs", f"must have exactly one of {', '.join(_KINDS)}")
    fits, what = _KINDS[kinds[0]]
    if not fits(given.raw(kinds[0])):
        raise given.error(kinds[0], f"must be {what}")
    return {name: value for name, value in whole.items() if value is not None}


def _forced_tools(fields: Fields, tools: Sequence[JsonObject]) -> tuple[str, ...]:
    """The names of the tools of which one must be called; none where the model may choose."""
    choice = fields.raw("tool_choice")
    if choice in (None, "auto", "none"):
        return ()
    offered = tuple(dict.fromkeys(str(cast(JsonObject, tool["function"])["name"]) for tool in tools))
    if not offered:
        raise fields.error("tool_choice", "must be left out where there are no tools")
    if choice == "required":
        return offered
    if not isinstance(choice, Mapping):
        raise fields.error("tool_choice", 'must be "auto", "none", "required" or the name of a function')
    named = fields.nested("tool_choice", choice)
    if named.raw("type") == "allowed_tools":
        raise named.error("type", "allowed_tools is not offered: send only the tools that are allowed")
    if named.raw("type") != "function":
        raise named.error("type", 'must be "function"')
    function = named.nested("function", named.raw("function"))
    if function.raw("name") not in offered:
        raise function.error("name", "must be the name of one of the tools")
    return (str(function.raw("name")),)
