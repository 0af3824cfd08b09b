"""Our messages to a renderer's dictionaries, and its results back to our types.

Everything that a foreign renderer returns is normalised or refused here, so that the other rooms meet plain
ids and `Message` objects only.
"""

import inspect
import json
from collections.abc import Callable, Sequence
from typing import TypeVar

from gateway.core.types import Answer, Message, Messages, ToolCall, Tools, token_ids
from gateway.errors import RendererError
from gateway.render.protocol import MessageDict, ParsedCall, Renderer, Tokenizer

T = TypeVar("T")

_DELIVERABLE = {"ok", "unknown_tool", None}
"""Parse states of calls that a client can be given; a call of an unknown tool is for the agent to answer."""


class Translator:
    """One renderer, spoken to in our own types.

    Raises, in every method:
        RendererError: the renderer raised, or returned something that its contract does not know.
    """

    def __init__(self, renderer: Renderer, tokenizer: Tokenizer, *, thinking_retention: str | None = None) -> None:
        self.renderer = renderer
        self.tokenizer = tokenizer
        self.thinking_retention = thinking_retention
        """Which reasoning of earlier turns the model sees again; ``None`` when the renderer does not say."""
        self.stop_ids = _ids(_guarded(renderer.get_stop_token_ids))
        self._parse_options = inspect.signature(renderer.parse_response).parameters.keys() & {"tools", "prompt_ids"}

    def render(self, messages: Messages, tools: Tools) -> list[int]:
        """The whole history and the opening of the next answer."""
        dicts = [_dict(message) for message in messages]
        return _ids(_guarded(self.renderer.render_ids, dicts, tools=_tools(tools), add_generation_prompt=True))

    def bridge(self, prompt_ids: list[int], sampled: list[int], new: Messages, tools: Tools) -> list[int] | None:
        """The next prompt as the renderer extends the last turn; unchecked; ``None`` when it declines."""
        step = self.renderer.bridge_to_next_turn
        result = _guarded(step, prompt_ids, sampled, [_dict(message) for message in new], tools=_tools(tools))
        return None if result is None else _ids(result)

    def parse(self, ids: list[int], prompt_ids: list[int], tools: Tools, mint: Callable[[], str]) -> Answer:
        """The message that a completion says. Tool calls get ids from `mint`.

        A call reaches the client only with a name and a strict JSON object as arguments. Whatever else the
        model wrote as a call is delivered as text, so that no answer is empty that was not sampled empty.
        """
        options = {"tools": _tools(tools), "prompt_ids": prompt_ids}
        parsed = _guarded(self.renderer.parse_response, ids, **{name: options[name] for name in self._parse_options})
        calls, broken = [], []
        for found in parsed.tool_calls or ():
            call = _call(found, mint)
            if call is None:
                broken.append(self._text_of(found, ids))
            else:
                calls.append(call)
        content = "\n".join(text for text in (parsed.content or "", *broken) if text)
        reasoning, flags = parsed.reasoning_content or None, ("malformed_tool_call",) if broken else ()
        if not (content or reasoning or calls):
            content = self.tokenizer.decode([i for i in ids if i not in self.stop_ids])
            flags = ("unparsed",) if content.strip() else ()
        return Answer(Message("assistant", content, reasoning=reasoning, tool_calls=tuple(calls)), flags)

    def _text_of(self, call: ParsedCall, ids: list[int]) -> str:
        span = getattr(call, "token_span", None)
        return self.tokenizer.decode(ids[slice(*span)]) if span else str(getattr(call, "raw", call.name or ""))


def _call(found: ParsedCall, mint: Callable[[], str]) -> ToolCall | None:
    arguments = _strict_object(found.arguments)
    name = found.name
    if getattr(found, "status", None) not in _DELIVERABLE or not isinstance(name, str) or not name or arguments is None:
        return None
    own_id = getattr(found, "id", None)
    return ToolCall(id=mint(), name=name, arguments=arguments, own_id=own_id if isinstance(own_id, str) else None)


def _strict_object(arguments: object) -> str | None:
    """JSON text of an arguments object; ``None`` if it is not one, holds NaN or infinities, or is not Unicode."""
    try:
        value = json.loads(arguments) if isinstance(arguments, str) else arguments
        if not isinstance(value, dict):
            return None
        text = json.dumps(value, ensure_ascii=False, allow_nan=False)
        text.encode()
    except (ValueError, TypeError, RecursionError):
        return None
    return text


def _dict(message: Message) -> MessageDict:
    calls = [{"id": c.own_id or c.id, "type": "function", "function": _function(c)} for c in message.tool_calls]
    optional = {
        "reasoning_content": message.reasoning,
        "tool_calls": calls or None,
        "tool_call_id": message.tool_call_id,
        "name": message.name,
    }
    given = {key: value for key, value in optional.items() if value is not None}
    return {"role": message.role, "content": message.content, **given}


def _function(call: ToolCall) -> MessageDict:
    return {"name": call.name, "arguments": call.arguments or "{}"}


def _tools(tools: Tools) -> list[MessageDict] | None:
    return [dict(tool) for tool in tools] or None


def _ids(result: object) -> list[int]:
    ids = getattr(result, "token_ids", result)
    if not isinstance(ids, Sequence):
        raise RendererError(f"the renderer returned {type(result).__name__} where token ids were due")
    try:
        token_ids(ids)
    except (TypeError, OverflowError) as error:
        raise RendererError(f"the renderer returned something that is no token id: {error}") from None
    return list(ids)


def _guarded(call: Callable[..., T], *arguments: object, **options: object) -> T:
    try:
        return call(*arguments, **options)
    except Exception as error:
        raise RendererError(f"the renderer failed: {type(error).__name__}: {error}") from error
