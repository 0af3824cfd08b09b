"""What stands between the markers of a tool call, read as a name and arguments: one function per way to write it.

Each takes the text and the tools of the request, and gives ``None`` for what no client should be given: a call without
a name that is Unicode text, or whose arguments are no strict JSON object (`gateway.render.strict_json`). Arguments
that are left out are none; arguments given as the JSON text of an object are that object. Whether there is a tool
of that name is for the agent to say.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from gateway.render.protocol import MessageDicts
from gateway.render.strict_json import read, strict_object


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call that a client can be given."""

    name: str
    arguments: str
    """JSON text of an object."""


BodyReader = Callable[[str, MessageDicts | None], Call | None]

_FUNCTION = re.compile(r"\s*<function=([^>]+)>")
_PARAMETER = re.compile(r"\s*<parameter=([^>]+)>(.*?)</parameter>", re.DOTALL)
_INVOKED = re.compile(r'\s+name="([^"]*)"\s*>')
_ARGUMENT = re.compile(
    r'\s*<｜DSML｜parameter name="([^"]*)" string="(true|false)">(.*?)</｜DSML｜parameter>', re.DOTALL
)
_SEPARATOR, _FENCE = "<｜tool▁sep｜>", "```"


def hermes(body: str, tools: MessageDicts | None) -> Call | None:  # noqa: ARG001  # one signature for all
    """``{"name": …, "arguments": {…}}``."""
    try:
        call = read(body.strip())
    except ValueError:
        return None
    return _sound(call.get("name"), call.get("arguments", {})) if isinstance(call, dict) else None


def xml(body: str, tools: MessageDicts | None) -> Call | None:
    """``<function=…>`` around ``<parameter=…>`` blocks.

    One newline on each side of a value is the template's, all else the model's: code keeps its indentation. What
    stands between the blocks must be white space; the closing ``</function>`` may be missing.
    """
    head = _FUNCTION.match(body)
    if not head:
        return None
    schemas, given, at = _parameters(tools, head[1]), dict[str, object](), head.end()
    try:
        while block := _PARAMETER.match(body, at):
            if block[1] in given:
                return None
            given[block[1]] = _value(block[2].removeprefix("\n").removesuffix("\n"), schemas.get(block[1]))
            at = block.end()
    except ValueError:
        return None
    return _sound(head[1], given) if body[at:].strip() in ("", "</function>") else None


def fenced(body: str, tools: MessageDicts | None) -> Call | None:  # noqa: ARG001
    """``function<｜tool▁sep｜>name``, a new line, and JSON in a fence, which may be missing."""
    kind, _, rest = body.partition(_SEPARATOR)
    name, _, text = rest.strip().partition("\n")
    text = text.strip()
    if text.startswith(_FENCE) and text.endswith(_FENCE) and len(text) >= 2 * len(_FENCE):
        text = text.removeprefix(_FENCE).removesuffix(_FENCE).removeprefix("json").strip()
    try:
        return _sound(name.strip(), read(text) if text else {}) if kind.strip() == "function" else None
    except ValueError:
        return None


def dsml(body: str, tools: MessageDicts | None) -> Call | None:  # noqa: ARG001
    """`` name="…">`` and parameters that say themselves whether they are text or JSON."""
    head = _INVOKED.match(body)
    if not head:
        return None
    given, at = dict[str, object](), head.end()
    try:
        while block := _ARGUMENT.match(body, at):
            key, is_text, text = block.groups()
            if key in given:
                return None
            given[key] = text if is_text == "true" else read(text)
            at = block.end()
    except ValueError:
        return None
    return None if body[at:].strip() else _sound(head[1], given)


def _sound(name: object, arguments: object) -> Call | None:
    text = strict_object(arguments)
    return Call(name, text) if isinstance(name, str) and name and text is not None else None


def _parameters(tools: MessageDicts | None, name: str) -> Mapping[str, object]:
    """The schemas of a tool's parameters; none where they are not given as schemas are."""
    for tool in tools or ():
        function = tool.get("function", tool)
        if isinstance(function, dict) and function.get("name") == name:
            parameters = function.get("parameters")
            properties = parameters.get("properties") if isinstance(parameters, dict) else None
            return properties if isinstance(properties, dict) else {}
    return {}


def _value(text: str, schema: object) -> object:
    """What a parameter says: text where only text is declared (``null`` too, where that is declared), else JSON.

    Raises:
        ValueError: it is no JSON, and the schema allows no text.
    """
    kinds = _kinds(schema)
    if kinds and "string" in kinds and kinds <= {"string", "null"}:
        return None if text == "null" and "null" in kinds else text
    try:
        return read(text)
    except ValueError:
        if kinds is None or "string" in kinds:
            return text
        raise


def _kinds(schema: object) -> set[str] | None:
    """The JSON types that a schema allows; ``None`` when it does not say."""
    if not isinstance(schema, dict):
        return None
    branches = schema.get("anyOf") or schema.get("oneOf")
    if "type" in schema or not isinstance(branches, list):
        return _types(schema)
    each = [_types(branch) for branch in branches]
    return {kind for kinds in each if kinds for kind in kinds} if all(each) else None


def _types(schema: object) -> set[str] | None:
    declared = schema.get("type") if isinstance(schema, dict) else None
    kinds = {declared} if isinstance(declared, str) else set(declared) if isinstance(declared, list) else None
    return kinds if kinds and all(isinstance(kind, str) for kind in kinds) else None
