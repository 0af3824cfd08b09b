"""What stands between the markers of a tool call, read as a name and arguments: one function per way to write it.

Each takes the text and the tools of the request, and gives the call, all of them where one text may hold several, and
``None`` for what no client should be given: a call without
a name that is Unicode text without white space around it, or whose arguments are no strict JSON object
(`gateway.render.strict_json`). Arguments that are left out are none; arguments given as the JSON text of an object are
that object. Whether there is a tool of that name is for the agent to say.
"""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from gateway.render.protocol import MessageDicts
from gateway.render.schemas import Kinds, Schemas
from gateway.render.strict_json import read, strict_object


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call that a client can be given."""

    name: str
    arguments: str
    """JSON text of an object."""
    id: str | None = field(default=None, compare=False)
    """The model's own, where it writes one; what is called does not hang on it."""


BodyReader = Callable[[str, MessageDicts | None], Call | tuple[Call, ...] | None]

_FUNCTION = re.compile(r"\s*<function=([^>]+)>")
_PARAMETER = re.compile(r"\s*<parameter=([^>]+)>(.*?)</parameter>", re.DOTALL)
_INVOKED = re.compile(r'\s+name="([^"]*)"\s*>')
_ARGUMENT = re.compile(
    r'\s*<｜DSML｜parameter name="([^"]*)" string="(true|false)">(.*?)</｜DSML｜parameter>', re.DOTALL
)
_NAMED = re.compile(r'\s*<parameter name="([^"]*)">(.*?)</parameter>', re.DOTALL)
_KEYED = re.compile(r"\s*<arg_key>(.*?)</arg_key>\s*<arg_value>(.*?)</arg_value>", re.DOTALL)
_BARE_NAME = re.compile(r"[^\s<>\"]+")
"""Names without quotes around them: what else stands there would be taken for a part of them."""
_NUMBERED = re.compile(r"(?:functions\.)?(.+?)(?::\d+)?")
_CALLED = re.compile(r"(.*?)(?:\[CALL_ID\](.*?))?(?:\[ARGS\]|(?=\{))(.*)", re.DOTALL)
_CONSTANTS: Mapping[str, tuple[object, str]] = {
    "True": (True, "boolean"),
    "False": (False, "boolean"),
    "None": (None, "null"),
    "null": (None, "null"),
}
_SEPARATOR, _FENCE, _ARGUMENTS = "<｜tool▁sep｜>", "```", "<|tool_call_argument_begin|>"
_DECODER = json.JSONDecoder()


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


def llama(body: str, tools: MessageDicts | None) -> tuple[Call, ...] | None:  # noqa: ARG001  # one signature for all
    """``{"name": …, "parameters": {…}}``, which may be called ``arguments``; several with ``;`` between them."""
    try:
        return _all(_listed(body.strip()), {"parameters", "arguments"})
    except (ValueError, RecursionError):
        return None


def array(body: str, tools: MessageDicts | None) -> tuple[Call, ...] | None:  # noqa: ARG001  # one signature for all
    """A JSON array of ``{"name": …, "arguments": {…}}``, each with an ``id`` or without."""
    try:
        calls = read(body.strip())
    except ValueError:
        return None
    return _all(calls, {"arguments"}) if isinstance(calls, list) else None


def mistral(body: str, tools: MessageDicts | None) -> Call | tuple[Call, ...] | None:
    """Such an array, or what newer templates write: ``name[ARGS]{…}``, ``name[CALL_ID]…[ARGS]{…}``, ``name{…}``."""
    if body.lstrip().startswith("["):
        return array(body, tools)
    found = _CALLED.fullmatch(body)
    if not found:
        return None
    name, call_id, arguments = found.groups()
    return _bare(name, arguments, call_id and call_id.strip())


def separated(body: str, tools: MessageDicts | None) -> Call | None:  # noqa: ARG001  # one signature for all
    """``name<｜tool▁sep｜>{…}``, as DeepSeek has it since V3.1."""
    name, separator, arguments = body.partition(_SEPARATOR)
    return _bare(name, arguments) if separator else None


def numbered(body: str, tools: MessageDicts | None) -> Call | None:  # noqa: ARG001  # one signature for all
    """``functions.name:0<|tool_call_argument_begin|>{…}``, of which the first part is the call's id, too."""
    call_id, separator, arguments = body.partition(_ARGUMENTS)
    found = _NUMBERED.fullmatch(call_id.strip())
    return _bare(found[1], arguments, found[0]) if separator and found else None


def keyed(body: str, tools: MessageDicts | None) -> Call | None:
    """The name, then ``<arg_key>`` and ``<arg_value>`` in turn."""
    name, opener, rest = body.partition("<arg_key>")
    is_name = _BARE_NAME.fullmatch(name.strip())
    return _tagged(name.strip(), _KEYED, opener + rest, tools, opener="<arg_key>") if is_name else None


def invoked(body: str, tools: MessageDicts | None) -> Call | None:
    """`` name="…">`` and ``<parameter name="…">`` blocks."""
    head = _INVOKED.match(body)
    return _tagged(head[1], _NAMED, body[head.end() :], tools, opener="<parameter name=") if head else None


def _tagged(name: str, block: re.Pattern[str], text: str, tools: MessageDicts | None, *, opener: str) -> Call | None:
    """A call whose parameters are `block` after `block`, with white space between them only."""
    schemas, given, at = Schemas.of(tools, name), dict[str, object](), 0
    try:
        while found := block.match(text, at):
            key, value = found.groups()
            if key in given or opener in key + value:
                return None
            given[key] = _value(value, schemas.kinds_of(key))
            at = found.end()
    except ValueError:
        return None
    return None if text[at:].strip() else _sound(name, given)


def _listed(text: str) -> list[object]:
    """JSON values with ``;`` between them."""
    values: list[object] = []
    while True:
        end = _DECODER.raw_decode(text)[1]
        values.append(read(text[:end]))
        rest = text[end:].lstrip()
        if not rest:
            return values
        if not rest.startswith(";"):
            raise ValueError("text behind a value")
        text = rest[1:].lstrip()


def _all(values: list[object], keys: set[str]) -> tuple[Call, ...] | None:
    """Calls, each with its arguments under one of `keys`; none if one of them is unsound, or if there are none."""
    calls = [_keyed_by(value, keys) for value in values]
    return tuple(call for call in calls if call) if calls and all(calls) else None


def _keyed_by(value: object, keys: set[str]) -> Call | None:
    given = keys & value.keys() if isinstance(value, dict) else set()
    if not isinstance(value, dict) or len(given) != 1:
        return None
    call_id = value.get("id")
    return _sound(value.get("name"), value[given.pop()], call_id if isinstance(call_id, str) else None)


def _bare(name: str, arguments: str, call_id: str | None = None) -> Call | None:
    name = name.strip()
    return _sound(name, arguments, call_id) if _BARE_NAME.fullmatch(name) else None


def _sound(name: object, arguments: object, call_id: str | None = None) -> Call | None:
    text = strict_object(arguments)
    is_name = isinstance(name, str) and name != "" and name == name.strip()
    return Call(str(name), text, call_id or None) if is_name and text is not None else None


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
