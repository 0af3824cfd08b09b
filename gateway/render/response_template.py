"""Answers read by what a tokenizer says of them: transformers' ``response_template``, once ``response_schema``."""

import inspect
import json
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import Any

from gateway.render.call_bodies import Call
from gateway.render.parsed import Parsed
from gateway.render.protocol import MessageDicts, Tokenizer
from gateway.render.stop_ids import length_to_stop
from gateway.render.stream_parser import MALFORMED, PAST_STOP
from gateway.render.strict_json import strict_object

_NAMES = ("response_template", "response_schema")
_REASONING = ("reasoning_content", "reasoning", "thinking")
"""What the templates in use call it."""


def template_of(tokenizer: Tokenizer) -> object:
    """What the tokenizer says of answers; ``None`` without anything, or where this transformers cannot read it."""
    if not callable(getattr(tokenizer, "parse_response", None)):
        return None
    return next((template for name in _NAMES if (template := getattr(tokenizer, name, None))), None)


def tells_calls(template: object) -> bool:
    """Whether there is a word of tool calls in it."""
    return "tool_calls" in json.dumps(template, default=str)


def read_answer(
    tokenizer: Any,  # parse_response is none of the gateway's own contract
    token_ids: Sequence[int],
    *,
    stop_ids: Collection[int],
    tools: MessageDicts | None = None,
    prompt_ids: Sequence[int] = (),
) -> Parsed:
    """The message of an answer up to its first stop id; what cannot be read is content."""
    end = length_to_stop(token_ids, stop_ids)
    past = (PAST_STOP,) if end + 1 < len(token_ids) else ()
    said = tokenizer.decode(token_ids[:end])  # without the stop, which would be text behind a call
    options = {"prefix": tokenizer.decode(prompt_ids) if prompt_ids else "", "tools": tools}
    taken = inspect.signature(tokenizer.parse_response).parameters
    parse: Callable[..., Any] = tokenizer.parse_response
    try:
        parsed = _parsed(parse(said, **{name: value for name, value in options.items() if name in taken}))
    except Exception:  # noqa: BLE001  # a broken answer raises whatever the template's readers do
        parsed = Parsed(said, None, (), (MALFORMED,))
    return replace(parsed, flags=(*parsed.flags, *past))


def _parsed(message: dict[str, Any]) -> Parsed:
    calls = [(written, _call(written)) for written in message.get("tool_calls") or ()]
    broken = [json.dumps(written, ensure_ascii=False) for written, call in calls if call is None]
    content = "\n".join(filter(None, (message.get("content"), *broken)))
    reasoning = next((message[name] for name in _REASONING if message.get(name)), None)
    sound = tuple(call for _, call in calls if call)
    return Parsed(content, reasoning, sound, (MALFORMED,) if broken else ())


def _call(written: Any) -> Call | None:  # as the tokenizer's author has it
    function = written.get("function", written) if isinstance(written, dict) else {}
    name, arguments = function.get("name"), strict_object(function.get("arguments", {}))
    return Call(name, arguments) if isinstance(name, str) and name and arguments is not None else None
