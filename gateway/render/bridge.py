"""The bridge for any renderer that can write a history: the new messages behind what was sampled, where certified.

What stands behind an answer is found by writing the new messages behind stand-ins for it, in small histories. For each
shape of turn the *actual* history is written with two stand-ins and with the answer itself: the text of all three must
begin with the prompt's and say the answer then, and all three must end in what was found, id for id. Only a shape that
was certified so is bridged, and it is audited now and then.
Where text can be had, every turn is held against the text of its own history besides, so that no bridge is
given that the template would not write.

Mutable state: the certifications, and the recollection of callers that do not tell the history.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple, Protocol, TypeVar, runtime_checkable

from gateway.errors import RendererError
from gateway.render.call_style import USUAL, CallStyle
from gateway.render.certification import Certifications, Due
from gateway.render.draft import guarded
from gateway.render.protocol import MessageDicts, ParsedResponse
from gateway.render.recollection import Recollection, answer_of
from gateway.render.shape import Frame, Shape, frames, shape_of, without_reasoning
from gateway.render.thoughts import unthought
from gateway.render.writing import Script, Turn, Write, Written, behind, ends, is_close_of_answer, thinks_nothing

W = TypeVar("W", str, list[int])

_OPENING_IDS = 4
"""Last ids of a prompt, which must be those that the history ends in when it is rendered."""


class Source(Protocol):
    """What can write a history."""

    def render_ids(
        self, messages: MessageDicts, *, tools: MessageDicts | None = None, add_generation_prompt: bool = False
    ) -> Sequence[int]:
        """As in `gateway.render.protocol.Renderer`."""

    def decode(self, token_ids: Sequence[int]) -> str:
        """The text of ids, control tokens and white space included."""


@runtime_checkable
class TextSource(Source, Protocol):
    """What can do so without tokenizing."""

    def text(self, messages: MessageDicts, *, tools: MessageDicts | None, opened: bool, moment: datetime) -> str:
        """The text of a history; `moment` is what a template's clock shows."""

    def encode(self, text: str) -> list[int]:
        """The ids of text in which control tokens are spelt."""


class Proof(NamedTuple):
    """What a certified shape relies on."""

    frame: int
    """Which of the frames serves."""
    front: str | list[int]
    """What is written between an answer in that frame and its close."""
    opening: int
    """The last id of the prompt."""


class CertifiedBridge:
    """Bridges the turns of one source of renders.

    With `retention` ``all``, thoughts that the source would strip from earlier answers are kept, and all else is
    certified as if nobody had thought. Callers that do not tell the history need a `recollection`; then `parse` reads a
    completion (its ids, the tools, the prompt), and `style` is how the source takes the answer.
    """

    def __init__(
        self,
        source: Source,
        stop_ids: Sequence[int],
        certifications: Certifications[Proof],
        *,
        retention: str | None,
        parse: Callable[[list[int], MessageDicts | None, list[int]], ParsedResponse],
        style: CallStyle = USUAL,
        recollection: Recollection | None = None,
    ) -> None:
        self.certifications = certifications
        self._source = source
        self._stop_ids = frozenset(stop_ids)
        self._keeps_thought = retention == "all"
        self._parse, self._style = parse, style
        self._recollection = recollection

    def remember(self, prompt_ids: Sequence[int], messages: MessageDicts, tools: MessageDicts | None) -> None:
        """A prompt was rendered: with a recollection, a bridge from it need not be told what it says."""
        if self._recollection is not None:
            self._recollection.put(prompt_ids, messages, tools)

    def bridge(
        self,
        prompt_ids: list[int],
        sampled: list[int],
        new: MessageDicts,
        tools: MessageDicts | None,
        history: MessageDicts | None,
    ) -> list[int] | None:
        """The next prompt, ``prompt_ids + sampled`` and what was proven to follow; ``None`` where nothing was."""
        if not self._is_closed(sampled) or not _may_follow(new, self._source.decode(sampled[-1:])):
            return None
        told = self._recalled(prompt_ids, sampled, new, tools) if history is None else history
        if told is None or len(told) < 2 or told[-1]["role"] != "assistant":
            return None
        if not self._keeps_thought and thinks_nothing(self._source.decode(sampled)):
            return None
        delta = self._delta(prompt_ids, sampled, told, new, tools)
        if not delta:
            return None
        ids = prompt_ids + sampled + delta
        if history is None:
            self.remember(ids, [*told, *new], tools)
        return ids

    def _recalled(
        self, prompt_ids: list[int], sampled: list[int], new: MessageDicts, tools: MessageDicts | None
    ) -> MessageDicts | None:
        known = None if self._recollection is None else self._recollection.get(prompt_ids, tools)
        if known is None:
            return None
        try:
            parsed = self._parse([*sampled], tools, [*prompt_ids])
            return [*known, answer_of(parsed, new, self._style)]
        except ValueError:
            return None

    def _is_closed(self, sampled: Sequence[int]) -> bool:
        """Whether an answer ends in its only stop id: one that was cut has none, one that went on has an early one."""
        stops = [at for at, token_id in enumerate(sampled) if token_id in self._stop_ids]
        return stops == [len(sampled) - 1]

    def _delta(
        self,
        prompt_ids: list[int],
        sampled: list[int],
        told: MessageDicts,
        new: MessageDicts,
        tools: MessageDicts | None,
    ) -> list[int] | None:
        shape = shape_of(told, new, tools, sampled[-1])
        due = self.certifications.due(shape)
        if due.step == "nothing":
            return None
        history = without_reasoning(told) if self._keeps_thought else told
        said = self._source.decode(sampled[:-1])
        if self._keeps_thought:
            said = unthought(said, told[-1].get("reasoning_content"))
        past = _Past(prompt_ids, said, told, history, new, tools, shape, due)
        try:
            if isinstance(self._source, TextSource):
                return self._delta_of_text(self._source, past)
            return self._delta_of_ids(past)
        except (RendererError, ValueError):  # this history cannot be written so, which tells nothing of others
            return None

    def _delta_of_ids(self, past: "_Past") -> list[int] | None:
        script, proof = self._id_script(past), past.due.proof
        if past.due.step == "trust":
            trusted = proof is not None and past.prompt_ids[-1] == proof.opening
            return next((found.delta for _, found in past.found(script) if trusted), None)
        turn = past.turn(script)
        if turn.prompt[-_OPENING_IDS:] != past.prompt_ids[-_OPENING_IDS:]:
            return None
        if not turn.extends():
            self._refuse(past, is_peculiar=turn.would_extend())
            return None
        is_peculiar = False
        for number, found in past.found(script):
            would, does = turn.would_go_on_with(found.delta), turn.goes_on_with(found.delta)
            if would and does and past.goes_on_as_told(script, found.delta):
                self.certifications.certify(past.shape, Proof(number, found.front, turn.prompt[-1]))
                return found.delta
            is_peculiar = is_peculiar or (would and not does)
        self._refuse(past, is_peculiar=is_peculiar)
        return None

    def _delta_of_text(self, source: TextSource, past: "_Past") -> list[int] | None:
        script, is_peculiar = self._text_script(source, past), True
        turn, opening = past.turn(script), past.prompt_ids[-_OPENING_IDS:]
        if not turn.prompt.endswith(source.decode(opening).lstrip("\N{REPLACEMENT CHARACTER}")) or not turn.extends():
            return None
        for number, found in past.found(script):
            if not turn.goes_on_with(found.delta) or not past.goes_on_as_told(script, found.delta):
                continue
            ids = source.encode(script.close + found.delta)
            delta = ids[1:] if ids[:1] == [past.shape.close] else []
            if past.due.step == "trust":
                return delta
            if delta and turn.would_go_on_with(found.delta) and source.encode(turn.whole)[-len(delta) :] == delta:
                self.certifications.certify(past.shape, Proof(number, found.front, opening[-1]))
                return delta
            is_peculiar = False
        self._refuse(past, is_peculiar=is_peculiar)
        return None

    def _refuse(self, past: "_Past", *, is_peculiar: bool) -> None:
        """No bridge for others of its shape, unless the turn is peculiar: they may well be extensions."""
        if not is_peculiar:
            self.certifications.refuse(past.shape, past.due)

    def _id_script(self, past: "_Past") -> Script[list[int]]:
        def write(messages: MessageDicts, *, opened: bool, moment: datetime) -> list[int]:  # noqa: ARG001  # no clock
            options = {"tools": past.tools, "add_generation_prompt": opened}
            return list(guarded(self._source.render_ids, messages, **options))

        return self._script(write, [past.shape.close], self._source.decode)

    def _text_script(self, source: TextSource, past: "_Past") -> Script[str]:
        def write(messages: MessageDicts, *, opened: bool, moment: datetime) -> str:
            return guarded(source.text, messages, tools=past.tools, opened=opened, moment=moment)

        return self._script(write, source.decode([past.shape.close]), str)

    def _script(self, write: Write[W], close: W, text: Callable[[W], str]) -> Script[W]:
        now = datetime.now()  # noqa: DTZ005  # as templates' clock
        return Script(write, close, text, ignores_thought=self._keeps_thought, now=now)


@dataclass(frozen=True, slots=True)
class _Past:
    """All that the next prompt hangs on."""

    prompt_ids: list[int]
    sampled: str
    """The text of the answer, without its close, and without its thought where that is left out of account."""
    told: MessageDicts
    history: MessageDicts
    """As told, without the thoughts that are left out of account."""
    new: MessageDicts
    tools: MessageDicts | None
    shape: Shape
    due: Due[Proof]
    """What turns of this shape may rely on."""

    def turn(self, script: Script[W]) -> Turn[W]:
        """The turn in one way to write it."""
        return Turn(script, self.history[:-1], self.history[-1], self.new, sampled=self.sampled)

    def goes_on_as_told(self, script: Script[W], delta: W) -> bool:
        """Whether the history ends in `delta` with all thoughts, too."""
        return self.told == self.history or ends(script.opened([*self.told, *self.new]), delta)

    def found(self, script: Script[W]) -> Iterator[tuple[int, Written[W]]]:
        """What is written behind an answer in each frame, or in the one that is relied on, as it was then."""
        proof = self.due.proof
        for number, frame in enumerate(frames(self.history, self.new)):
            if proof is None or proof.frame == number:
                try:
                    found = behind(script, frame, self.new)
                    if found and self._is_of_answer(script, frame, found):
                        yield number, found
                except (RendererError, ValueError):  # a history that cannot be written
                    continue

    def _is_of_answer(self, script: Script[W], frame: Frame, found: Written[W]) -> bool:
        if self.due.proof is not None:
            return found.front == self.due.proof.front
        return is_close_of_answer(script, frame, self.new, found)


def _may_follow(new: MessageDicts, close: str) -> bool:
    """Whether there are new messages, all of them text, and none of them an answer that was not sampled here.

    Nor may a name or an id hold what closes an answer, which would be taken for it.
    """
    return bool(new) and all(
        message["role"] != "assistant"
        and isinstance(message.get("content"), str)
        and not any(close in str(value) for key, value in message.items() if key != "content")
        for message in new
    )
