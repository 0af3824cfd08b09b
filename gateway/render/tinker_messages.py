"""Messages as OpenAI's dictionaries, and as tinker-cookbook has them; what it parsed, as our contract has it.

The cookbook keeps thoughts as parts of the content, calls as objects of its own, and tools in messages that each of
its renderers makes for itself.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from gateway.errors import BadRequest
from gateway.render.parsed import FoundCall, FoundMessage
from gateway.render.parts import no_text, with_text_arguments
from gateway.render.protocol import MessageDict, MessageDicts

CookbookMessage = dict[str, Any]
_NO_PARAMETERS = {"type": "object", "properties": {}}


def cookbook_messages(
    messages: MessageDicts, tool_call: Callable[..., object], *, takes_thoughts: bool = True
) -> list[CookbookMessage]:
    """The messages as the cookbook has them; `tool_call` makes a call of its own kind from a dictionary.

    Thoughts are left out unless the renderer `takes_thoughts`, as the template of a model that has none does.

    A tool's result is named after the call that it answers, since some formats write the name and OpenAI's results
    need not have one.

    Raises:
        MultimodalUnsupported: a part of a message is neither text nor thought.
    """
    named: dict[object, object] = {}
    made = []
    for message in messages:
        calls = cast("list[dict[str, Any]]", message.get("tool_calls") or [])
        named |= {call["id"]: call["function"]["name"] for call in calls if call.get("id")}
        own: CookbookMessage = {"role": message["role"], "content": _content(message, takes_thoughts=takes_thoughts)}
        if calls:
            own["tool_calls"] = [tool_call(_call(call)) for call in calls]
        answered = message.get("tool_call_id")
        name = message.get("name") or (named.get(answered) if message["role"] == "tool" else None)
        optional = {"tool_call_id": answered, "name": name}
        made.append(own | {key: value for key, value in optional.items() if value is not None})
    return made


def with_tools(
    messages: Sequence[CookbookMessage], tools: MessageDicts, prefix: Callable[..., list[CookbookMessage]]
) -> list[CookbookMessage]:
    """The messages behind those with which a renderer declares tools: a system message in front goes into them.

    Raises:
        BadRequest: the renderer knows no tools.
    """
    led = bool(messages) and messages[0]["role"] in ("system", "developer")
    system = _text(messages[0]["content"]) if led else ""
    declared = [cast("dict[str, Any]", tool.get("function", tool)) for tool in tools]
    try:
        try:
            head = prefix(declared, system)
        except KeyError:  # some write what a tool need not say, others would write it for nothing
            usual = {"description": "", "parameters": _NO_PARAMETERS}
            head = prefix([{"name": tool["name"], **usual, **tool} for tool in declared], system)
    except NotImplementedError:  # how the cookbook says that a renderer has no tools
        raise BadRequest("tools: the renderer of this model knows none", param="tools") from None
    return [*head, *messages[led:]]


def found_message(message: Mapping[str, Any]) -> FoundMessage:
    """What the cookbook parsed: thoughts apart, pieces of text in lines of their own, calls sound and not."""
    calls = [
        FoundCall(call.function.name, call.function.arguments, "", "ok", call.id)
        for call in message.get("tool_calls") or ()
    ]
    unparsed = message.get("unparsed_tool_calls") or ()
    content, parts = message["content"], []
    if isinstance(content, str):
        # White space beside calls is the template's, which writes it anew.
        content = content.strip() if calls or unparsed else content
    else:
        parts = [part["thinking"] for part in content if part["type"] == "thinking"]
        texts = [part["text"] for part in content if part["type"] == "text"]
        content = texts[0] if len(texts) == 1 and not calls else "\n".join(filter(None, map(str.strip, texts)))
    # What never closed stands in the content as well, and would be told twice.
    calls += [
        FoundCall(None, None, "" if call.raw_text in content else call.raw_text, "malformed_structure")
        for call in unparsed
    ]
    return FoundMessage(content, "\n".join(parts) if parts else None, tuple(calls))


def _content(message: MessageDict, *, takes_thoughts: bool) -> str | list[dict[str, str]]:
    """Text, or its parts where there is a thought."""
    parts = _parts(message.get("content"))
    thought = message.get("reasoning_content")
    if thought:
        parts.insert(0, {"type": "thinking", "thinking": str(thought)})
    if not takes_thoughts:
        parts = [part for part in parts if part["type"] == "text"]
    if any(part["type"] == "thinking" for part in parts):
        return parts
    return "".join(part["text"] for part in parts)


def _parts(content: object) -> list[dict[str, str]]:
    if content is None or isinstance(content, str):
        return [{"type": "text", "text": content}] if content else []
    return [_part(part) for part in content] if isinstance(content, list) else [_part(content)]


def _part(part: object) -> dict[str, str]:
    match part:
        case {"type": "text" | "thinking" as kind, **rest} if isinstance(text := rest.get(kind), str):
            return {"type": kind, kind: text}
    raise no_text()


def _call(call: Mapping[str, Any]) -> dict[str, object]:
    called = with_text_arguments(call["function"])
    function = {"name": called["name"], "arguments": called["arguments"]}
    return {"id": call.get("id"), "type": "function", "function": function}


def _text(content: str | list[dict[str, str]]) -> str:
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content)
