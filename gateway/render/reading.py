"""One completion, read as its ids come: what the client is told of it, and where the turn ends.

A streamed answer is read piece by piece, another one at once, both in these steps. So they say one message.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import get_args

from gateway.core.types import Answer, Delta, Flag, Message, TurnRequest
from gateway.errors import RendererError
from gateway.render.draft import guarded, parts
from gateway.render.protocol import ParsedCall, ParsedDelta, ParsedResponse
from gateway.render.stops import StopWatch
from gateway.render.translator import Translator


@dataclass(frozen=True, slots=True)
class _Rest:
    """What a parser found last, and did not tell."""

    content: str
    reasoning_content: str
    tool_calls: Sequence[ParsedCall]


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
        self._watch = StopWatch(translator.tokenizer, request.sampling, translator.stop_ids)
        self._parser = translator.parser(prompt_ids, request.tools)
        self._draft = translator.draft(mint)
        self._shown: list[int] = []
        self._content: list[str] = []
        self._reasoning: list[str] = []
        self._calls = 0
        # What the parser told: where a call was broken, the client was told more.

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
            rest += self._add(self._translator.parsed(self._shown, self._prompt_ids, self._request.tools))
        else:
            rest += self._add(self._untold(guarded(self._parser.finish)))
        rest += self._draft.close(self._shown)
        if self._parser is not None and not self._agrees():
            self._draft.flags.append("parse_differs")
        stop = self._watch.stop
        if stop is not None and stop.cut:
            self._draft.flags.append("stop_cut")
        return Ending(self._draft.answer, rest, stop.kept if stop else None)

    def _read(self, shown: Sequence[int]) -> list[Delta]:
        self._shown += shown
        if self._parser is None or not shown:
            return []
        told: list[ParsedDelta] = guarded(list, guarded(self._parser.feed, shown))
        return [delta for parsed in told for delta in self._add(parsed)]

    def _add(self, parsed: ParsedDelta) -> list[Delta]:
        content, reasoning, calls = guarded(parts, parsed)
        self._content.append(content)
        self._reasoning.append(reasoning)
        self._calls += len(calls)
        return self._draft.add(parsed, self._shown)

    def _untold(self, whole: ParsedResponse) -> "_Rest":
        """What a parser finishes with, without what it told before."""
        content, reasoning, calls = guarded(parts, whole)
        told, reasoned = "".join(self._content), "".join(self._reasoning)
        if not (content.startswith(told) and reasoning.startswith(reasoned) and len(calls) >= self._calls):
            raise RendererError("the renderer's stream parser finished with another message than it had told")
        self._draft.flags += [flag for flag in getattr(whole, "flags", ()) if flag in get_args(Flag)]
        return _Rest(content[len(told) :], reasoning[len(reasoned) :], calls[self._calls :])

    def _agrees(self) -> bool:
        """Whether the renderer's own parse says the same, as far as a client is told."""
        try:
            other = self._translator.parse(self._shown, self._prompt_ids, self._request.tools, str)
        except RendererError:
            return False
        return _gist(other.message) == _gist(self._draft.answer.message)


def _gist(message: Message) -> tuple[object, ...]:
    calls = [(call.name, call.arguments) for call in message.tool_calls]
    return message.content.strip(), (message.reasoning or "").strip(), calls
