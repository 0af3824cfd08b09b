"""Our messages to a renderer's dictionaries, and its results back to our types.

Everything that a foreign renderer returns is normalised or refused here, so that the other rooms meet plain
ids and `Message` objects only.
"""

import inspect
import re
from collections.abc import Callable, Sequence

from gateway.core.ledger import PendingTurn
from gateway.core.turn import Prompt
from gateway.core.types import Message, Messages, ToolCall, Tools, token_ids
from gateway.errors import RendererError
from gateway.render.call_ids import CallIds, in_form, learn_call_ids
from gateway.render.draft import Draft, guarded
from gateway.render.formats import Format
from gateway.render.mark import mark_of
from gateway.render.markers import Markers
from gateway.render.protocol import MessageDict, ParsedResponse, Renderer, Streaming, StreamParser, Tokenizer
from gateway.render.stream_parser import TokenParser, opens_thought

_OPEN_THOUGHT = re.compile(r"(<think>|<\|think\|>|<seed:think>|\[THINK\]|◁think▷)\s*$")
_TAIL_IDS = 16
"""Ids at the end of a prompt that hold such a marker, also where it is spelled in letters."""


class Translator:
    """One renderer, spoken to in our own types.

    Raises, in every method:
        RendererError: the renderer raised, or returned something that its contract does not know.
    """

    def __init__(
        self, renderer: Renderer, tokenizer: Tokenizer, *, kept: str | None = None, markers: Markers | None = None
    ) -> None:
        self.renderer = renderer
        self.tokenizer = tokenizer
        self.markers = markers
        """How the model writes, where we know that: then we read its answers, and not its renderer."""
        self.mark = mark_of(renderer, tokenizer)
        """Which renderer it is."""
        self.thinking_retention = kept
        """Which reasoning of earlier turns a bridge keeps; ``None`` when the renderer does not say."""
        self.stop_ids = _ids(guarded(renderer.get_stop_token_ids))
        self.call_ids: CallIds = "shown"
        """What the template does with tool-call ids: taken as they are, until it was learnt."""
        self._parse_options = _taken(renderer.parse_response, "tools", "prompt_ids")

    def learn(self) -> "Translator":
        """Find out what the template does with tool-call ids, and from now on give it what it demands."""
        self.call_ids = learn_call_ids(self.render)
        return self

    def render(self, messages: Messages, tools: Tools, *, opened: bool = True) -> list[int]:
        """The whole history and, unless not `opened`, the opening of the next answer."""
        dicts = self._dicts(messages)
        return _ids(guarded(self.renderer.render_ids, dicts, tools=_tools(tools), add_generation_prompt=opened))

    def bridge(self, prompt_ids: list[int], sampled: list[int], new: Messages, tools: Tools) -> list[int] | None:
        """The next prompt as the renderer extends the last turn; unchecked; ``None`` when it declines."""
        step = self.renderer.bridge_to_next_turn
        result = guarded(step, prompt_ids, sampled, self._dicts(new), tools=_tools(tools))
        return None if result is None else _ids(result)

    def parsed(self, ids: list[int], prompt_ids: list[int], tools: Tools) -> ParsedResponse:
        """What the renderer itself makes of a completion."""
        # Copies: what was sampled and shown to the engine is not the renderer's to change.
        options = {"tools": _tools(tools), "prompt_ids": list(prompt_ids)}
        return guarded(self.renderer.parse_response, list(ids), **{n: options[n] for n in self._parse_options})

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
    def form(self) -> Format | None:
        """How the model writes, where we know that."""
        return self.markers.form if self.markers else None

    def opens_thought(self, prompt_ids: list[int]) -> bool:
        """Whether a prompt ends inside a thought, as far as that can be told where we do not know how models write."""
        if self.markers is not None:
            return opens_thought(self.markers, prompt_ids)
        return _OPEN_THOUGHT.search(self.tokenizer.decode(prompt_ids[-_TAIL_IDS:])) is not None

    def retention_of(self, pending: PendingTurn, prompt: Prompt) -> str | None:
        """Which earlier reasoning a prompt holds: a bridge keeps what its base has, a render what the template does."""
        if prompt.base is not None:
            return prompt.base.origin.thinking_retention
        reasoned = (message.reasoning for message in pending.match.recorded(pending.messages))
        return "template" if self.thinking_retention and any(reasoned) else self.thinking_retention

    def _dicts(self, messages: Messages) -> list[MessageDict]:
        shown = in_form if self.call_ids == "demanded" else str
        return [_dict(message, shown) for message in messages]


def _taken(method: Callable[..., object], *options: str) -> set[str]:
    """Those of the contract's optional arguments that a method takes."""
    return inspect.signature(method).parameters.keys() & set(options)


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
