"""One completion, read as its ids come: what the client is told of it, and where the turn ends.

A streamed answer is read piece by piece, another one at once, both in these steps. So they say one message.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import get_args

from gateway.core.types import Answer, Completion, Delta, Flag, TurnRequest
from gateway.errors import RendererError
from gateway.render.draft import guarded, parts
from gateway.render.plain_parser import PlainParser
from gateway.render.protocol import ParsedDelta, ParsedResponse
from gateway.render.stops import StopWatch
from gateway.render.stream_parser import TokenParser
from gateway.render.translator import Translator

_BOUND_TEXT = {"json", "json_object", "regex", "choice"}
"""Grammars of answers that are text alone; others may well have tool calls in them."""
_COMPARED_IDS = 16_384
"""How long an answer a renderer's own parse is asked for, beside its stream parser; of ours, see `Format`."""


@dataclass(frozen=True, slots=True)
class Ending:
    """What is known of a completion when all of it was read."""

    answer: Answer
    rest: list[Delta]
    """What of the answer has not been told before."""
    kept: int | None
    """How many ids a stop string leaves to the turn; ``None`` without one."""


class Reading:
    """The reading of one completion of `prompt_ids`; `mint` makes the ids of its tool calls.

    Raises, in every method:
        RendererError: the renderer raised, or told something other than it finished with.
    """

    def __init__(
        self, translator: Translator, prompt_ids: list[int], request: TurnRequest, mint: Callable[[], str]
    ) -> None:
        self._translator = translator
        self._prompt_ids = prompt_ids
        self._request = request
        self._watch = self._watch_anew()
        if _BOUND_TEXT.isdisjoint(request.constraint or ()):
            self._parser, self._compared_ids = translator.parser(prompt_ids, request.tools), _COMPARED_IDS
            if translator.form is not None:
                self._compared_ids = translator.form.compared_ids
        else:
            self._parser, self._compared_ids = PlainParser(translator.tokenizer, translator.stop_ids), 0
        self._draft = translator.draft(mint)
        self._shown: list[int] = []
        # What the parser told; where a call was broken, the client was told more.
        self._content: list[str] = []
        self._reasoning: list[str] = []
        self._calls = 0

    @property
    def shown(self) -> int:
        """How many sampled ids have been read; a stop string that may be coming holds back the last ones."""
        stop = self._watch.stop
        return min(len(self._shown), stop.kept) if stop else len(self._shown)

    def feed(self, ids: Sequence[int]) -> list[Delta]:
        """Read the next ids; what the client may be told by now. Without a parser that is nothing."""
        return self._read(self._watch.feed(ids))

    def finish(self) -> Ending:
        """All ids are read. What a stream parser made of them is held against the renderer's own parse."""
        rest = self._read(self._watch.finish())
        if self._parser is None:
            parsed = self._translator.parsed(self._shown, self._prompt_ids, self._request.tools)
            rest += self._add(parsed)
            self._flag(parsed)
            rest += self._draft.close(self._shown)
        else:
            whole = guarded(self._parser.finish)
            rest += self._finish(whole)
            if not isinstance(self._parser, TokenParser):
                rest += self._draft.close(self._shown)
            if len(self._shown) <= self._compared_ids and not self._agrees(whole):
                self._draft.flags.append("parse_differs")
        stop = self._watch.stop
        if stop is not None and stop.cut:
            self._draft.flags.append("stop_cut")
        return Ending(self._draft.answer, rest, stop.kept if stop else None)

    def cut(self, partial: Completion) -> Completion:
        """A completion that was broken off, up to a stop string if there is one; whatever was fed before."""
        watch = self._watch_anew()
        watch.feed(partial.ids)
        watch.finish()
        return partial.head(watch.stop.kept, partial.finish_reason) if watch.stop else partial

    def _watch_anew(self) -> StopWatch:
        return StopWatch(self._translator.tokenizer, self._request.sampling, self._translator.stop_ids)

    def _read(self, shown: Sequence[int]) -> list[Delta]:
        self._shown += shown
        if self._parser is None or not shown:
            return []
        told: list[ParsedDelta] = guarded(list, guarded(self._parser.feed, shown))
        return [delta for parsed in told for delta in self._add(parsed)]

    def _add(self, parsed: ParsedDelta) -> list[Delta]:
        content, reasoning, calls = parts(parsed)
        self._content.append(content)
        self._reasoning.append(reasoning)
        self._calls += len(calls)
        return self._draft.add(content, reasoning, calls, self._shown)

    def _finish(self, whole: ParsedResponse) -> list[Delta]:
        """Take what a parser finishes with: what of it was not told before."""
        content, reasoning, calls = parts(whole)
        told, reasoned = "".join(self._content), "".join(self._reasoning)
        if not (content.startswith(told) and reasoning.startswith(reasoned) and len(calls) >= self._calls):
            raise RendererError("the renderer's stream parser finished with another message than it had told")
        self._flag(whole)
        rest = content[len(told) :], reasoning[len(reasoned) :], calls[self._calls :]
        return self._draft.add(*rest, self._shown)

    def _flag(self, parsed: ParsedResponse) -> None:
        self._draft.flags += [flag for flag in getattr(parsed, "flags", ()) if flag in get_args(Flag)]

    def _agrees(self, whole: ParsedResponse) -> bool:
        """Whether the renderer's own parse says the same as our parser has found, as far as a client is told."""
        try:
            own = self._translator.parsed(self._shown, self._prompt_ids, self._request.tools)
            return self._gist(own) == self._gist(whole)
        except RendererError:
            return False

    def _gist(self, parsed: ParsedResponse) -> tuple[object, ...]:
        draft = self._translator.draft(str)
        draft.add(*parts(parsed), self._shown)
        message = draft.answer.message
        calls = [(call.name, call.arguments) for call in message.tool_calls]
        return message.content.strip(), (message.reasoning or "").strip(), calls
