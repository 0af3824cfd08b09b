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
from gateway.render.call_ids import CallIds, in_form, learn_call_ids
from gateway.render.protocol import MessageDict, ParsedCall, ParsedResponse, Renderer, Tokenizer

T = TypeVar("T")

_DELIVERABLE = {"ok", "unknown_tool", None}
"""Parse states of calls that a client can be given; a call of an unknown tool is for the agent to answer."""


class Translator:
    """One renderer, spoken to in our own types.

    Raises, in every method:
        RendererError: the renderer raised, or returned something that its contract does not know.
    """

    def __init__(self, renderer: Renderer, tokenizer: Tokenizer, *, kept: str | None = None) -> None:
        self.renderer = renderer
        self.tokenizer = tokenizer
        self.thinking_retention = kept
        """Which reasoning of earlier turns a bridge keeps; ``None`` when the renderer does not say."""
        self.stop_ids = _ids(_guarded(renderer.get_stop_token_ids))
        self.call_ids: CallIds = "shown"
        """What the template does with tool-call ids: taken as they are, until it was learnt."""
        self._parse_options = inspect.signature(renderer.parse_response).parameters.keys() & {"tools", "prompt_ids"}

    def learn(self) -> "Translator":
        """Find out what the template does with tool-call ids, and from now on give it what it demands."""
        self.call_ids = learn_call_ids(self.render)
        return self

    def render(self, messages: Messages, tools: Tools) -> list[int]:
        """The whole history and the opening of the next answer."""
        dicts = self._dicts(messages)
        return _ids(_guarded(self.renderer.render_ids, dicts, tools=_tools(tools), add_generation_prompt=True))

    def bridge(self, prompt_ids: list[int], sampled: list[int], new: Messages, tools: Tools) -> list[int] | None:
        """The next prompt as the renderer extends the last turn; unchecked; ``None`` when it declines."""
        step = self.renderer.bridge_to_next_turn
        result = _guarded(step, prompt_ids, sampled, self._dicts(new), tools=_tools(tools))
        return None if result is None else _ids(result)

    def parse(self, ids: list[int], prompt_ids: list[int], tools: Tools, mint: Callable[[], str]) -> Answer:
        """The message that a completion says. Tool calls get ids from `mint`.

        A call reaches the client only with a name and a strict JSON object as arguments. Whatever else the
        model wrote as a call is delivered as text, so that no answer is empty that was not sampled empty.
        """
        # Copies: what was sampled and shown to the engine is not the renderer's to change.
        options = {"tools": _tools(tools), "prompt_ids": list(prompt_ids)}
        parsed = _guarded(self.renderer.parse_response, list(ids), **{n: options[n] for n in self._parse_options})
        content, reasoning, found = _guarded(_parts, parsed)
        calls = [(_guarded(_call, call, mint), call) for call in found]
        broken = [self._text_of(raw, ids) for call, raw in calls if call is None]
        good = tuple(call for call, _ in calls if call is not None)
        content = "\n".join(text for text in (content, *broken) if text)
        flags = ("malformed_tool_call",) if broken else ()
        if not (content or reasoning or good):
            content = self.tokenizer.decode([i for i in ids if i not in self.stop_ids])
            flags = ("unparsed",) if content.strip() else ()
        return Answer(Message("assistant", content, reasoning=reasoning, tool_calls=good), flags)

    def _dicts(self, messages: Messages) -> list[MessageDict]:
        shown = in_form if self.call_ids == "demanded" else str
        return [_dict(message, shown) for message in messages]

    def _text_of(self, call: ParsedCall, ids: list[int]) -> str:
        span = getattr(call, "token_span", None)
        return self.tokenizer.decode(ids[slice(*span)]) if span else str(getattr(call, "raw", call.name or ""))


def _parts(parsed: ParsedResponse) -> tuple[str, str | None, list[ParsedCall]]:
    content, reasoning = parsed.content or "", parsed.reasoning_content or None
    "".join((content, reasoning or "")).encode()  # fails for what is no text, or could not be sent as UTF-8
    return content, reasoning, list(parsed.tool_calls or ())


def _call(found: ParsedCall, mint: Callable[[], str]) -> ToolCall | None:
    arguments, name, own_id = _strict_object(found.arguments), found.name, getattr(found, "id", None)
    named = isinstance(name, str) and name.encode()
    if not (name and named) or arguments is None or getattr(found, "status", None) not in _DELIVERABLE:
        return None
    return ToolCall(
        id=mint(), name=name, arguments=arguments, own_id=own_id if own_id and isinstance(own_id, str) else None
    )


def _strict_object(arguments: object) -> str | None:
    """JSON text of an arguments object; ``None`` if it is not one, holds NaN or infinities, or is not Unicode."""
    try:
        value = json.loads(arguments) if isinstance(arguments, str) else arguments
        text = json.dumps(value, ensure_ascii=False, allow_nan=False)
        text.encode()
    except (ValueError, TypeError, RecursionError):
        return None
    return text if isinstance(value, dict) else None


def _dict(message: Message, shown: Callable[[str], str]) -> MessageDict:
    """A message as renderers read it, each tool-call id as the template is `shown` it."""
    calls = [{"id": shown(c.own_id or c.id), "type": "function", "function": _function(c)} for c in message.tool_calls]
    answered = message.tool_call_id
    optional = {
        "reasoning_content": message.reasoning,
        "tool_calls": calls or None,
        "tool_call_id": None if answered is None else shown(answered),
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
    if not isinstance(ids, Sequence) or isinstance(ids, str | bytes) or not len(ids):
        raise RendererError(f"the renderer returned {type(result).__name__} where token ids were due, and at least one")
    try:
        stored = token_ids(ids)
    except (TypeError, OverflowError) as error:
        raise RendererError(f"the renderer returned something that is no token id: {error}") from None
    return list(ids) if type(ids[0]) is int else stored.tolist()  # numpy's integers are no JSON


def _guarded(call: Callable[..., T], *arguments: object, **options: object) -> T:
    try:
        return call(*arguments, **options)
    except Exception as error:  # its words may repeat the prompt, so they stay with the cause
        raise RendererError(f"the renderer failed: {type(error).__name__}") from error
