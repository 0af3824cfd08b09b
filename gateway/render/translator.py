"""Our messages to a renderer's dictionaries, and its results back to our types.

Everything that a foreign renderer returns is normalised or refused here, so that the other rooms meet plain
ids and `Message` objects only.
"""

import inspect
from array import array
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import TypeVar

from gateway.core.ledger import PendingTurn
from gateway.core.turn import Prompt
from gateway.core.types import Message, Messages, Sampling, ToolCall, Tools, token_ids
from gateway.errors import BadRequest, RendererError
from gateway.render.call_ids import CallIds, in_form, learn_call_ids
from gateway.render.call_style import USUAL, CallStyle
from gateway.render.discovery import AnswerFormat
from gateway.render.draft import Draft, guarded
from gateway.render.formats import Format
from gateway.render.lock import lock_of
from gateway.render.mark import mark_of
from gateway.render.markers import Markers
from gateway.render.protocol import (
    MessageDict,
    MessageDicts,
    ParsedResponse,
    Renderer,
    Streaming,
    StreamParser,
    Tokenizer,
)
from gateway.render.stream_parser import TokenParser, opens_thought
from gateway.render.thoughts import OPENED
from gateway.render.trial import learn_style

T = TypeVar("T")

_NO_TOOLS = (
    "tools: this model's renderer reads no tool calls; whoever runs this gateway can choose another with --renderer, "
    "or give prime's default renderer a tool_parser with --renderer-config. Without tools it serves"
)
_TAIL_IDS = 16
"""Ids at the end of a prompt that hold such a marker, also where it is spelled in letters."""


class Translator:
    """One renderer, spoken to in our own types, by one thread at a time: see `gateway.render.lock`.

    Raises, in every method:
        RendererError: the renderer raised, or returned something that its contract does not know.
        BadRequest: there are tools, and nobody knows how this model writes its calls.
    """

    def __init__(self, renderer: Renderer, tokenizer: Tokenizer, *, markers: Markers | None = None) -> None:
        self.renderer = renderer
        self.tokenizer = tokenizer
        self.markers = markers or _own(renderer, "markers", Markers)
        """How the model writes, where we know that: then we read its answers, and not its renderer."""
        self.answers = _own(renderer, "answers", AnswerFormat)
        """How the answers are read, where that had to be discovered."""
        self.mark = mark_of(renderer, tokenizer)
        """Which renderer it is."""
        self.thinking_retention = _own(renderer, "effective_thinking_retention", str)
        """Which reasoning of earlier turns a bridge keeps; ``None`` when the renderer does not say."""
        self.stop_ids = _ids(guarded(renderer.get_stop_token_ids))
        self._stop_strings = _stop_strings(renderer)
        self.calls_at_once = _calls_at_once(renderer)
        """How many calls may run at once: one, unless it waits for a network and encodes nothing with the tokenizer."""
        self.call_ids: CallIds = "shown"
        """What the template does with tool-call ids: taken as they are, until it was learnt."""
        self.call_style = USUAL
        """In which style the template takes answers with calls."""
        self._turn: AbstractContextManager[object] = nullcontext() if self.calls_at_once > 1 else lock_of(tokenizer)
        self.truncates = bool(_own(renderer, "truncates", bool))
        """Whether prompts that are too long are cut, so that none is."""
        self._parse_options = _taken(renderer.parse_response, "tools", "prompt_ids")
        self._asks_history = bool(_taken(renderer.bridge_to_next_turn, "history"))

    def learn(self) -> "Translator":
        """Find out how the template takes calls and their ids, and from now on give it what it demands."""
        self.call_style = learn_style(self._written)
        self.call_ids = learn_call_ids(self._render)
        return self

    def render(self, messages: Messages, tools: Tools, *, opened: bool = True) -> list[int]:
        """The whole history and, unless not `opened`, the opening of the next answer."""
        self._check(tools)
        return self._render(messages, tools, opened=opened)

    def bridge(
        self, prompt_ids: list[int], sampled: list[int], new: Messages, tools: Tools, history: Messages
    ) -> list[int] | None:
        """The next prompt as the renderer extends the last turn; ``None`` when it declines.

        `history` ends in the answer that was sampled. Whether the prompt begins with the ids that are known is not
        checked here; what comes behind them are ids. To make sure of all of them would cost more than most bridges do.
        """
        self._check(tools)
        step = self.renderer.bridge_to_next_turn
        options = {"history": self._dicts(history)} if self._asks_history else {}
        result = self._alone(step, prompt_ids, sampled, self._dicts(new), tools=_tools(tools), **options)
        return None if result is None else _extended(result, len(prompt_ids) + len(sampled))

    def ended(self, sampling: Sampling) -> Sampling:
        """As a client asks for it, with the texts that end the model's turn beside the stop ids."""
        missing = () if sampling.ignore_eos else tuple(text for text in self._stop_strings if text not in sampling.stop)
        return replace(sampling, stop=(*sampling.stop, *missing)) if missing else sampling

    def parsed(self, ids: list[int], prompt_ids: list[int], tools: Tools) -> ParsedResponse:
        """What the renderer itself makes of a completion."""
        # Copies: what was sampled and shown to the engine is not the renderer's to change.
        options = {"tools": _tools(tools), "prompt_ids": list(prompt_ids)}
        return self._alone(self.renderer.parse_response, list(ids), **{n: options[n] for n in self._parse_options})

    def draft(self, mint: Callable[[], str]) -> Draft:
        """An answer to be made of what is parsed."""
        return Draft(self.tokenizer, self.stop_ids, mint)

    def parser(self, prompt_ids: list[int], tools: Tools) -> StreamParser | None:
        """What reads one completion as it comes; ``None`` where it can only be parsed as a whole."""
        if self.markers is not None:
            return TokenParser(self.markers, _tools(tools), prompt_ids=prompt_ids)
        if not isinstance(self.renderer, Streaming):
            return None
        takes = _taken(self.renderer.stream_parser, "prompt_ids")
        options = {"prompt_ids": list(prompt_ids)} if takes else {}
        return guarded(self.renderer.stream_parser, _tools(tools), **options)

    @property
    def takes_tools(self) -> bool:
        """Whether calls can be read; else requests with tools are refused."""
        if self.answers is not None:
            return self.answers.takes_tools
        return getattr(self.renderer, "supports_tools", True) is not False

    @property
    def reads(self) -> str:
        """How answers are read, for whoever runs the gateway."""
        if self.answers is not None:
            return f"{self.answers.name}: {self.answers.why}"
        return "its family is known to write" if self.form else "the renderer itself reads them"

    @property
    def form(self) -> Format | None:
        """How the model writes, where we know that."""
        return self.markers.form if self.markers else None

    def opens_thought(self, prompt_ids: list[int]) -> bool:
        """Whether a prompt ends inside a thought, as far as that can be told where we do not know how models write."""
        if self.markers is not None:
            return opens_thought(self.markers, prompt_ids)
        return OPENED.search(self.tokenizer.decode(prompt_ids[-_TAIL_IDS:])) is not None

    def retention_of(self, pending: PendingTurn, prompt: Prompt) -> str | None:
        """Which earlier reasoning a prompt holds: a bridge keeps what its base has, a render what the template does."""
        if prompt.base is not None:
            return prompt.base.origin.thinking_retention
        reasoned = (message.reasoning for message in pending.match.recorded(pending.messages))
        return "template" if self.thinking_retention and any(reasoned) else self.thinking_retention

    def _alone(self, call: Callable[..., T], *arguments: object, **options: object) -> T:
        """What a renderer's code returns that may encode."""
        with self._turn:
            return guarded(call, *arguments, **options)

    def _check(self, tools: Tools) -> None:
        if tools and not self.takes_tools:
            raise BadRequest(self.answers.refusal if self.answers else _NO_TOOLS, param="tools")

    def _render(self, messages: Messages, tools: Tools, *, opened: bool = True) -> list[int]:
        dicts = self._dicts(messages)
        return _ids(self._alone(self.renderer.render_ids, dicts, tools=_tools(tools), add_generation_prompt=opened))

    def _written(self, messages: MessageDicts, tools: MessageDicts) -> str | None:
        """The text of a history; ``None`` where the renderer refuses it."""
        try:
            return self.tokenizer.decode(_ids(self._alone(self.renderer.render_ids, messages, tools=tools)))
        except (BadRequest, RendererError):
            return None

    def _dicts(self, messages: Messages) -> list[MessageDict]:
        shown = in_form if self.call_ids == "demanded" else str
        return [_dict(message, shown, self.call_style) for message in messages]


def _own(renderer: Renderer, name: str, kind: type[T]) -> T | None:
    """What renderers of ours have under a name; one of another's may have something else there."""
    found = getattr(renderer, name, None)
    return found if isinstance(found, kind) else None


def _stop_strings(renderer: Renderer) -> tuple[str, ...]:
    texts = getattr(renderer, "stop_strings", ())
    if isinstance(texts, str) or not isinstance(texts, Iterable) or not all(type(text) is str for text in texts):
        raise RendererError("the renderer's stop_strings are no list of texts")
    return tuple(texts)


def _calls_at_once(renderer: Renderer) -> int:
    count = getattr(renderer, "calls_at_once", 1)
    if type(count) is not int or count < 1:
        raise RendererError(f"the renderer's calls_at_once is {count!r}, and must be a number from one on")
    return count


def _taken(method: Callable[..., object], *options: str) -> set[str]:
    """Those of the contract's optional arguments that a method takes."""
    return inspect.signature(method).parameters.keys() & set(options)


def _dict(message: Message, shown: Callable[[str], str], style: CallStyle) -> MessageDict:
    """A message as renderers read it, in `style`, each tool-call id as the template is `shown` it."""
    calls = [_call(call, shown, style) for call in message.tool_calls]
    answered = message.tool_call_id
    optional = {
        "reasoning_content": message.reasoning,
        "tool_calls": calls or None,
        "tool_call_id": None if answered is None else shown(answered),
        "name": message.name,
    }
    given = {key: value for key, value in optional.items() if value is not None}
    return {"role": message.role, "content": style.content(message.content, has_calls=bool(calls)), **given}


def _call(call: ToolCall, shown: Callable[[str], str], style: CallStyle) -> MessageDict:
    function = {"name": call.name, "arguments": style.arguments(call.arguments)}
    return {"id": shown(call.own_id or call.id), "type": "function", "function": function}


def _tools(tools: Tools) -> list[MessageDict] | None:
    return [dict(tool) for tool in tools] or None


def _ids(result: object) -> list[int]:
    ids = _sequence(result)
    stored = _stored(ids)
    return list(ids) if type(ids[0]) is int else stored.tolist()  # numpy's integers are no JSON


def _extended(result: object, known: int) -> list[int]:
    """A result of which what comes behind the first `known` ids are ids."""
    ids = _sequence(result)
    _stored(ids[known:])
    return ids if isinstance(ids, list) else list(ids)


def _sequence(result: object) -> Sequence[int]:
    ids = getattr(result, "token_ids", result)
    if not isinstance(ids, Sequence) or isinstance(ids, str | bytes) or not len(ids):
        raise RendererError(f"the renderer returned {type(result).__name__} where token ids were due, and at least one")
    return ids


def _stored(ids: Sequence[int]) -> "array[int]":
    try:
        return token_ids(ids)
    except (TypeError, OverflowError) as error:
        raise RendererError(f"the renderer returned something that is no token id: {error}") from None
