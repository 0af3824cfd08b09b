"""The renderer of the demo's own tokenizer and chat template, ``gateway/sim/tokenizer``.

What this renderer writes and what the template writes are the same ids, for every text without a control token in
it. Where a message says ``<|im_end|>``, a template's text would make a real control token of it; here it stays text:
control tokens are put in by id, and everything between them is encoded with ``split_special_tokens``, under which the
tokenizer does not look for them. Parsing is by id as well, so a model that spells a marker in letters says letters.
"""

import json
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Protocol, cast

from gateway.core.types import JsonObject
from gateway.errors import BadRequest
from gateway.render.formats import DEMO
from gateway.render.markers import Markers
from gateway.render.parsed import Parsed
from gateway.render.parts import joined, joined_or_refused
from gateway.render.protocol import MessageDict, MessageDicts, Tokenizer
from gateway.render.stream_parser import TokenParser

MODEL_NAME = "rollout-gateway/demo"
"""The name of the model that comes with the package, and its path as far as ``--model`` goes."""
FOLDER = Path(__file__).parent.parent / "sim" / "tokenizer"
"""Where its tokenizer is."""

_TOOLS_ABOVE = "You can call these tools, one description a line:\n<tools>\n"
_TOOLS_BELOW = "</tools>\n\nTo call one, write its name and its arguments as a JSON object between call markers."


class _PlainEncoder(Protocol):
    def encode(self, text: str, *, add_special_tokens: bool, split_special_tokens: bool) -> list[int]: ...


def names_demo(tokenizer: Tokenizer) -> bool:
    """Whether this is the demo's tokenizer: called so, or loaded from a folder whose configuration says so."""
    configured = getattr(tokenizer, "init_kwargs", {}).get("model_name")
    return MODEL_NAME in (tokenizer.name_or_path, configured)


class DemoRenderer:
    """Fulfils `gateway.render.protocol.Renderer` for the demo's tokenizer.

    Raises:
        BadRequest: a template argument other than a boolean ``enable_thinking``.
        ValueError: the tokenizer lacks one of the template's control tokens.
    """

    effective_thinking_retention = "all"
    """The template keeps the reasoning of every turn, so each prompt can extend the one before."""

    def __init__(self, tokenizer: Tokenizer, template_kwargs: JsonObject) -> None:
        unknown = [name for name in template_kwargs if name != "enable_thinking"]
        thinking = template_kwargs.get("enable_thinking", True)
        if unknown or not isinstance(thinking, bool):
            reason = f"{unknown[0]} is unknown" if unknown else "enable_thinking must be true or false"
            raise BadRequest(f"chat_template_kwargs: {reason}", param="chat_template_kwargs")
        self._tokenizer = tokenizer
        self._text = partial(cast(_PlainEncoder, tokenizer).encode, add_special_tokens=False, split_special_tokens=True)
        vocabulary = tokenizer.get_vocab()

        def control(text: str) -> int:
            if text not in vocabulary:
                raise ValueError(f"the tokenizer has no {text}")
            return vocabulary[text]

        self._start, self._end = control("<|im_start|>"), control("<|im_end|>")
        self._stops = (self._end, control("<|endoftext|>"))
        self._think, self._think_end = control("<think>"), control("</think>")
        self._call, self._call_end = control("<tool_call>"), control("</tool_call>")
        self._result, self._result_end = control("<tool_response>"), control("</tool_response>")
        self.markers = Markers(DEMO, tokenizer, self._stops)
        """What its answers are read by."""
        self._no_thought = [] if thinking else self._thought("")
        self._opening = [*self._opener("assistant"), *self._no_thought]

    def render_ids(
        self, messages: MessageDicts, *, tools: MessageDicts | None = None, add_generation_prompt: bool = False
    ) -> list[int]:
        """The ids of a history; with `add_generation_prompt`, up to where the model's answer begins."""
        messages = joined_or_refused(messages)
        has_system = bool(messages) and messages[0]["role"] == "system"
        system = _text_of(messages[0]) if has_system else None
        ids = self._head(system, tools) + self._messages(messages[1:] if has_system else messages)
        return ids + self._opening if add_generation_prompt else ids

    def get_stop_token_ids(self) -> list[int]:
        """The end of a turn, and the end of all text."""
        return [*self._stops]

    def bridge_to_next_turn(
        self,
        previous_prompt_ids: list[int],
        previous_completion_ids: list[int],
        new_messages: MessageDicts,
        *,
        tools: MessageDicts | None = None,  # noqa: ARG002  # they stand at the head of the history
    ) -> list[int] | None:
        """The previous ids and the new messages; an answer that was cut in its text is closed first.

        ``None`` where the render of the history could not go on like that: the prompt is none of ours, the answer
        goes on behind its end or ends in the middle of a thought or call, or the new messages hold an answer or
        something else than text.
        """
        said, new_messages = previous_completion_ids, joined(new_messages) or []
        closed = said[-1:] == [self._end]
        if (
            not new_messages
            or any(message["role"] == "assistant" for message in new_messages)
            or previous_prompt_ids[-len(self._opening) :] != self._opening
            or any(token_id in (self._start, *self._stops) for token_id in said[: len(said) - closed])
            or self._ends_inside(said, self._think, self._think_end)
            or self._ends_inside(said, self._call, self._call_end)
        ):
            return None
        close = self._text("\n") if closed else [self._end, *self._text("\n")]
        return previous_prompt_ids + said + close + self._messages(new_messages) + self._opening

    def parse_response(self, token_ids: list[int]) -> Parsed:
        """The message that a completion says, up to its first stop id."""
        parser = TokenParser(self.markers)
        parser.feed(token_ids)
        return parser.finish()

    def _head(self, system: str | None, tools: MessageDicts | None) -> list[int]:
        if not tools:
            return [] if system is None else self._block("system", system)
        listed = "".join(json.dumps(tool, ensure_ascii=False) + "\n" for tool in tools)
        return self._block("system", (f"{system}\n\n" if system else "") + _TOOLS_ABOVE + listed + _TOOLS_BELOW)

    def _messages(self, messages: MessageDicts) -> list[int]:
        ids: list[int] = []
        before = None
        for message in messages:
            role, content = str(message["role"]), _text_of(message)
            if before == "tool" != role:
                ids += self._closing()
            if role == "tool":
                ids += self._text("\n") if before == "tool" else self._opener("user")
                ids += [self._result, *self._text(f"\n{content}\n"), self._result_end]
            elif role == "assistant":
                ids += [*self._opener(role), *self._answer(message, content), *self._closing()]
            else:
                ids += self._block(role, content)
            before = role
        return ids + self._closing() if before == "tool" else ids

    def _answer(self, message: MessageDict, content: str) -> list[int]:
        reasoning = message.get("reasoning_content")
        ids = self._thought(str(reasoning)) if reasoning else [*self._no_thought]
        ids += self._text(content)
        calls = cast("Iterable[dict[str, dict[str, object]]]", message.get("tool_calls") or ())
        for nth, call in enumerate(calls):
            arguments = call["function"]["arguments"]
            text = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
            name = json.dumps(call["function"]["name"], ensure_ascii=False)
            body = f'\n{{"name": {name}, "arguments": {text or "{}"}}}\n'
            ids += [*(self._text("\n") if content or nth else ()), self._call, *self._text(body), self._call_end]
        return ids

    def _thought(self, text: str) -> list[int]:
        return [self._think, *self._text(f"\n{text}\n"), self._think_end, *self._text("\n\n")]

    def _block(self, role: str, content: str) -> list[int]:
        return [self._start, *self._text(f"{role}\n{content}"), *self._closing()]

    def _opener(self, role: str) -> list[int]:
        return [self._start, *self._text(f"{role}\n")]

    def _closing(self) -> list[int]:
        return [self._end, *self._text("\n")]

    @staticmethod
    def _ends_inside(ids: Sequence[int], opened: int, closed: int) -> bool:
        last = next((token_id for token_id in reversed(ids) if token_id in (opened, closed)), None)
        return last == opened


def _text_of(message: MessageDict) -> str:
    return str(message.get("content") or "")
