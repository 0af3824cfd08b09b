"""What a renderer parsed of a completion, as the answer that a client is given.

A call reaches the client only with a name and a strict JSON object as arguments. Whatever else the model wrote as a
call is delivered as text, so that no answer is empty that was not sampled empty.
"""

from collections.abc import Callable, Sequence
from typing import TypeVar

from gateway.core.types import Answer, Delta, Flag, Message, ToolCall
from gateway.errors import GatewayError, RendererError
from gateway.render.protocol import ParsedCall, ParsedDelta, Tokenizer
from gateway.render.strict_json import strict_object

T = TypeVar("T")

_DELIVERABLE = {"ok", "unknown_tool", None}
"""Parse states of calls that a client can be given; a call of an unknown tool is for the agent to answer."""


class Draft:
    """An answer in the making; `ids` are those that have been parsed so far.

    Raises, in every method:
        RendererError: what was parsed is not what the contract knows.
    """

    def __init__(self, tokenizer: Tokenizer, stop_ids: Sequence[int], mint: Callable[[], str]) -> None:
        self.flags: list[Flag] = []
        self._tokenizer = tokenizer
        self._stop_ids = stop_ids
        self._mint = mint
        self._content: list[str] = []
        self._reasoning: list[str] = []
        self._calls: list[ToolCall] = []

    def add(self, content: str, reasoning: str, calls: Sequence[ParsedCall], ids: Sequence[int]) -> list[Delta]:
        """Take more of a parse, see `parts`; what of it the client is told."""
        told = [self._noted(Delta(reasoning=reasoning)), self._noted(Delta(content=content))]
        for call in calls:
            sound = guarded(_call, call, self._mint)
            told.append(self._noted(Delta(call=sound) if sound else self._broken(call, ids)))
        return [delta for delta in told if delta != Delta()]

    def close(self, ids: Sequence[int]) -> list[Delta]:
        """All is parsed; what the client is told at last, where it has heard nothing so far."""
        if self._content or self._reasoning or self._calls:
            return []
        text = self._tokenizer.decode([token_id for token_id in ids if token_id not in self._stop_ids])
        if text.strip():
            self.flags.append("unparsed")
        return [self._noted(Delta(content=text))] if text else []

    @property
    def answer(self) -> Answer:
        """All that was told."""
        content, reasoning = "".join(self._content), "".join(self._reasoning) or None
        message = Message("assistant", content, reasoning=reasoning, tool_calls=tuple(self._calls))
        return Answer(message, tuple(dict.fromkeys(self.flags)))

    def _noted(self, delta: Delta) -> Delta:
        if delta.call:
            self._calls.append(delta.call)
        if delta.content:
            self._content.append(delta.content)
        if delta.reasoning:
            self._reasoning.append(delta.reasoning)
        return delta

    def _broken(self, call: ParsedCall, ids: Sequence[int]) -> Delta:
        self.flags.append("malformed_tool_call")
        span = getattr(call, "token_span", None)
        raw = self._tokenizer.decode(ids[slice(*span)]) if span else str(getattr(call, "raw", call.name or ""))
        return Delta(content=f"\n{raw}" if self._content and raw else raw)


def parts(parsed: ParsedDelta) -> tuple[str, str, list[ParsedCall]]:
    """Content, reasoning and calls of a parse, the texts known to be text.

    Raises:
        RendererError: it is no parse.
    """
    return guarded(_parts, parsed)


def _parts(parsed: ParsedDelta) -> tuple[str, str, list[ParsedCall]]:
    content, reasoning = parsed.content or "", parsed.reasoning_content or ""
    (content + reasoning).encode()  # fails for what is no text, or could not be sent as UTF-8
    return content, reasoning, list(parsed.tool_calls or ())


def _call(found: ParsedCall, mint: Callable[[], str]) -> ToolCall | None:
    arguments, name, own_id = strict_object(found.arguments), found.name, getattr(found, "id", None)
    named = isinstance(name, str) and name.encode()
    if not (name and named) or arguments is None or getattr(found, "status", None) not in _DELIVERABLE:
        return None
    return ToolCall(
        id=mint(), name=name, arguments=arguments, own_id=own_id if own_id and isinstance(own_id, str) else None
    )


def guarded(call: Callable[..., T], *arguments: object, **options: object) -> T:
    """What a renderer's code returns; whatever it raises leaves as a `RendererError`, unless it is ours to raise."""
    try:
        return call(*arguments, **options)
    except GatewayError:
        raise
    except Exception as error:  # its words may repeat the prompt, so they stay with the cause
        raise RendererError(f"the renderer failed: {type(error).__name__}") from error
