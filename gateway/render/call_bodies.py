"""What stands between the markers of a tool call, read as a name and arguments: one function per way to write it.

Each takes the text and the tools of the request, and gives ``None`` for what no client should be given: a call without
a name that is Unicode text without white space around it, or whose arguments are no strict JSON object
(`gateway.render.strict_json`). Arguments that are left out are none; arguments given as the JSON text of an object are
that object. Whether there is a tool of that name is for the agent to say.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from gateway.render.protocol import MessageDicts
from gateway.render.schemas import Kinds, Schemas
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
_CONSTANTS: Mapping[str, tuple[object, str]] = {
    "True": (True, "boolean"),
    "False": (False, "boolean"),
    "None": (None, "null"),
    "null": (None, "null"),
}
_SEPARATOR, _FENCE = "<｜tool▁sep｜>", "```"


def hermes(body: str, tools: MessageDicts | None) -> Call | None:  # noqa: ARG001  # one signature for all
    """``{"name": …, "arguments": {…}}``; arguments under another name would be lost."""
    try:
        call = read(body.strip())
    except ValueError:
        return None
    if not isinstance(call, dict) or ("arguments" not in call and call.keys() != {"name"}):
        return None
    return _sound(call.get("name"), call.get("arguments", {}))


def xml(body: str, tools: MessageDicts | None) -> Call | None:
    """``<function=…>`` around ``<parameter=…>`` blocks.

    One newline on each side of a value is the template's, all else the model's: code keeps its indentation. What
    stands between the blocks must be white space, and no block may begin in another, which never closed; the closing
    ``</function>`` may be missing.
    """
    head = _FUNCTION.match(body)
    if not head:
        return None
    schemas, given, at = Schemas.of(tools, head[1]), dict[str, object](), head.end()
    try:
        while block := _PARAMETER.match(body, at):
            if block[1] in given or "\n<parameter=" in block[2]:
                return None
            given[block[1]] = _value(block[2].removeprefix("\n").removesuffix("\n"), schemas.kinds_of(block[1]))
            at = block.end()
    except ValueError:
        return None
    return _sound(head[1], given) if body[at:].strip() in ("", "</function>") else None


def fenced(body: str, tools: MessageDicts | None) -> Call | None:  # noqa: ARG001  # one signature for all
    """``function<｜tool▁sep｜>name``, a new line, and JSON in a fence, which may be missing."""
    kind, _, rest = body.partition(_SEPARATOR)
    name, _, text = rest.strip().partition("\n")
    if "{" in name or _FENCE in name:  # the arguments, with no new line before them
        return None
    text = text.strip()
    if text.startswith(_FENCE) and text.endswith(_FENCE) and len(text) >= 2 * len(_FENCE):
        text = text.removeprefix(_FENCE).removesuffix(_FENCE).removeprefix("json").strip()
    try:
        return _sound(name.strip(), read(text) if text else {}) if kind.strip() == "function" else None
    except ValueError:
        return None


def dsml(body: str, tools: MessageDicts | None) -> Call | None:  # noqa: ARG001  # one signature for all
    """`` name="…">`` and parameters that say themselves whether they are text or JSON."""
    head = _INVOKED.match(body)
    if not head:
        return None
    given, at = dict[str, object](), head.end()
    try:
        while block := _ARGUMENT.match(body, at):
            key, is_text, text = block.groups()
            if key in given or "<｜DSML｜parameter " in text:
                return None
            given[key] = text if is_text == "true" else read(text)
            at = block.end()
    except ValueError:
        return None
    return None if body[at:].strip() else _sound(head[1], given)


def _sound(name: object, arguments: object) -> Call | None:
    text = strict_object(arguments)
    is_name = isinstance(name, str) and name != "" and name == name.strip()
    return Call(str(name), text) if is_name and text is not None else None


def _value(text: str, kinds: Kinds) -> object:
    """What a parameter says: text where only text is declared, else JSON, or Python's words for the JSON constants.

    Templates write these (``True``, ``None``), so the model does.

    Raises:
        ValueError: it is none of it, and the schema allows no text.
    """
    if kinds is not None and text in _CONSTANTS and _CONSTANTS[text][1] in kinds:
        return _CONSTANTS[text][0]
    if kinds and "string" in kinds and kinds <= {"string", "null"}:
        return text
    try:
        return read(text)
    except ValueError:
        if kinds is None or "string" in kinds:
            return text
        raise
