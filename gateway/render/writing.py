"""How a history is written, as text or as ids: what stands behind an answer, and what that hangs on.

The same proofs are made of ids, which every source of renders has, and of text, which costs little where a
template is at hand. What is written behind the *close* of an answer, the id that ended it, is its *delta*.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Generic, Protocol, TypeVar

from gateway.render.protocol import MessageDict, MessageDicts
from gateway.render.said import around, calls_of, is_same, leads_of, parts_of, says_all
from gateway.render.shape import MARKS, Frame, marks_in, mirror, renewed
from gateway.render.thoughts import EMPTY, OPENED

W = TypeVar("W", str, list[int])
W_co = TypeVar("W_co", str, list[int], covariant=True)

_MOMENTS = (datetime(2001, 2, 3, 4, 5, 6), datetime(2094, 11, 28, 21, 47, 58, 999))  # noqa: DTZ001  # as templates' clock
"""Far apart, and written in other lengths: what a template makes of the time shows."""


class Write(Protocol[W_co]):
    """What writes a history, and the opening of the next answer if that is `opened`, as at some `moment`."""

    def __call__(self, messages: MessageDicts, *, opened: bool, moment: datetime) -> W_co:
        """As text, or as ids; a source that cannot choose the moment leaves it alone."""


@dataclass(frozen=True, slots=True)
class Script(Generic[W]):
    """One way to write histories: as text, or as ids."""

    write: Write[W]
    close: W
    text: Callable[[W], str]
    """What was written, as text."""
    ignores_thought: bool
    """Whether thoughts are left out of account: a bridge keeps them, whatever the template does."""
    now: datetime
    """The same for all that is compared."""

    def opened(self, messages: MessageDicts, *, moment: datetime | None = None) -> W:
        """Messages, and the opening of an answer, now or at some other moment."""
        return self.write(messages, opened=True, moment=moment or self.now)

    def alone(self, messages: MessageDicts) -> W:
        """Messages, and nothing behind the last."""
        return self.write(messages, opened=False, moment=self.now)

    def compared(self, written: W) -> str:
        """The text of what was written, as far as it counts."""
        text = self.text(written)
        return OPENED.sub("", EMPTY.sub("", text)) if self.ignores_thought else text


@dataclass(frozen=True, slots=True)
class Written(Generic[W]):
    """What is written behind what an answer says."""

    front: W
    """What comes before its close."""
    delta: W
    """What comes after."""


class Turn(Generic[W]):
    """A turn as it was: what was asked, the answer, and the new messages; each way to write it is written once.

    `sampled` is the text of the answer, without its close, and without its thought where that is left out of account.
    """

    def __init__(
        self, script: Script[W], before: MessageDicts, answer: MessageDict, new: MessageDicts, *, sampled: str
    ) -> None:
        self._script: Script[W] = script
        self._before, self._answer, self._new = before, answer, new
        self._sampled = sampled

    @cached_property
    def prompt(self) -> W:
        """What was asked, and the opening of the answer."""
        return self._script.opened(self._before)

    def extends(self) -> bool:
        """Whether the history begins with the prompt and says the answer then; if not, nothing can go on from it."""
        return self._extends(self._whole)

    def would_extend(self) -> bool:
        """Whether it would, whatever the answer said, thought and called the same functions with.

        Raises:
            ValueError: the arguments of a call are no JSON object.
        """
        return all(map(self._extends, self._marked))

    def goes_on_with(self, delta: W) -> bool:
        """Whether the history goes on with `delta` behind what was prompted and answered.

        Just what was sampled must stand in between, part by part: what a template leaves out, adds to or rewrites is
        no extension of it.
        """
        said = self._said(self._whole, delta)
        pieces = None if said is None else around(said, parts_of(self._answer))
        return pieces is not None and self._is_open(pieces) and self._was_sampled_around(pieces)

    def _was_sampled_around(self, pieces: list[str]) -> bool:
        """Whether just `pieces` were sampled around what the answer says, but for how its JSON is spelt."""
        leads = leads_of(self._answer)
        sampled = around(self._sampled, leads)
        if sampled is None or not all(map(is_same, sampled[:-1], pieces)):
            return False
        rest = pieces[len(leads) :]
        return says_all(sampled[-1], rest) if calls_of(self._answer) else is_same(sampled[-1], "".join(rest))

    def would_go_on_with(self, delta: W) -> bool:
        """Whether it also would, whatever the answer said, thought and called the same functions with.

        Raises:
            ValueError: the arguments of a call are no JSON object.
        """
        return all(self._says_marks(whole, delta) for whole in self._marked)

    def _extends(self, whole: "_Whole[W]") -> bool:
        text, prompt = self._script.compared(whole.written), self._prompt_text
        return text.startswith(prompt) and around(text[len(prompt) :], parts_of(whole.answer)) is not None

    def _says_marks(self, whole: "_Whole[W]", delta: W) -> bool:
        said = self._said(whole, delta)
        pieces = None if said is None else around(said, parts_of(whole.answer))
        if said is None or pieces is None or not self._is_open(pieces):
            return False
        return all(said.count(mark) == 1 for mark in marks_in(whole.answer))

    def _is_open(self, pieces: list[str]) -> bool:
        """Whether no close is written within an answer: it would end there."""
        close = self._script.text(self._script.close)
        return not any(close in piece for piece in pieces)

    @cached_property
    def _whole(self) -> "_Whole[W]":
        return self._written(self._answer)

    @cached_property
    def _marked(self) -> "list[_Whole[W]]":
        short, long = MARKS
        return [self._written(mirror(self._answer, short)), self._written(mirror(self._answer, long, in_full=True))]

    def _written(self, answer: MessageDict) -> "_Whole[W]":
        return _Whole(answer, self._script.opened([*self._before, answer, *self._new]))

    @property
    def whole(self) -> W:
        """All of it, and the opening of the next answer."""
        return self._whole.written

    @cached_property
    def _prompt_text(self) -> str:
        return self._script.compared(self.prompt)

    def _said(self, whole: "_Whole[W]", delta: W) -> str | None:
        """The text between the prompt and the answer's close, if the history is these, and goes on with `delta`."""
        middle = self._middle(whole, delta)
        text = "" if middle is None else self._script.compared(middle)
        if middle is None or not text.startswith(self._prompt_text):
            return None
        return text[len(self._prompt_text) :]

    def _middle(self, whole: "_Whole[W]", delta: W) -> W | None:
        """Everything in front of the answer's close, if the close and `delta` are what the history then ends in.

        Some templates write no close behind some answers (DeepSeek-V3's: behind the first call). There the new
        messages must add `delta` and nothing else.
        """
        written, close = whole.written, self._script.close
        if ends(written, close + delta):
            return written[: len(written) - len(close) - len(delta)]
        if not ends(written, delta):
            return None
        rest = written[: len(written) - len(delta)]
        alone = self._script.alone([*self._before, whole.answer])
        is_open = _find(alone[len(self.prompt) :], close) is None
        return rest if is_open and rest == alone else None


@dataclass(frozen=True, slots=True)
class _Whole(Generic[W]):
    """The history with some answer."""

    answer: MessageDict
    written: W


def thinks_nothing(text: str) -> bool:
    """Whether there is a thought in an answer that says nothing, which no message tells of and few templates write."""
    return bool(EMPTY.search(text) or OPENED.search(text))


def behind(script: Script[W], frame: Frame, new: MessageDicts) -> Written[W] | None:
    """What is written behind an answer of `frame` whatever it says, and whenever; ``None`` if that leaves it open."""
    one = script.opened([*frame(MARKS[0]), *new], moment=_MOMENTS[0])
    other = script.opened([*frame(MARKS[1]), *new], moment=_MOMENTS[1])
    same = _same_end(one, other)
    at = _find(same, script.close)
    if at is None:
        return None
    return Written(same[:at], same[at + len(script.close) :])


def is_close_of_answer(script: Script[W], frame: Frame, new: MessageDicts, found: Written[W]) -> bool:
    """Whether the close that was found is that of the answer, and none of a message behind it.

    Then what comes before it does not hang on what the new messages say, and stands there without them.
    """
    other = behind(script, frame, renewed(new))
    if other is None or other.front != found.front:
        return False
    one, another = (script.alone(frame(mark)) for mark in MARKS)
    return script.text(found.front).strip() in script.text(_same_end(one, another))


def ends(whole: W, end: W) -> bool:
    """Whether `whole` ends in `end`."""
    return whole[max(len(whole) - len(end), 0) :] == end


def _same_end(one: W, other: W) -> W:
    """What both end in. New messages may be long, so it is compared piece by piece."""
    same, step = 0, 1 << 16
    while step:
        pieces = [whole[max(len(whole) - same - step, 0) : len(whole) - same] for whole in (one, other)]
        if pieces[0] == pieces[1] and len(pieces[0]) == step:
            same += step
        else:
            step //= 2
    return one[len(one) - same :]


def _find(whole: W, part: W) -> int | None:
    """Where `part` first begins in `whole`; a part of ids is one id."""
    if isinstance(whole, str):
        at = whole.find(part)
        return None if at < 0 else at
    return whole.index(part[0]) if part[0] in whole else None
