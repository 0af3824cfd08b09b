"""Where a stop string ends a completion, and what of it the client sees.

An engine in tokens mode returns ids and no text, and keeps the whole of the token that completed the stop.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from gateway.core.types import Sampling
from gateway.render.decoder import Decoder, Said
from gateway.render.protocol import Tokenizer
from gateway.render.token_text import TORN

_BLOCK = 32
"""Ids that are decoded at once as long as nothing in them has to do with a stop: 13 µs an id instead of 22 in feeds of
8 ids, 3.4 instead of 19.5 where the whole completion is there (demo tokenizer, two stops)."""


@dataclass(frozen=True, slots=True)
class StopMatch:
    """A stop string found in a completion."""

    kept: int
    """Number of sampled ids up to the one that completed the stop; later ids are discarded."""
    cut: bool
    """Whether the last kept id says more than the stop: text that the model sampled and nobody will see."""


class _Stop:
    """One stop string, and how much of its beginning the text ends with."""

    # Source: Knuth, Morris and Pratt, Fast pattern matching in strings.

    def __init__(self, text: str) -> None:
        self.text = text
        self.reached_chars = 0
        self._shorter = [0] * (len(text) + 1)
        for at in range(1, len(text)):
            self._shorter[at + 1] = self._next(self._shorter[at], text[at])

    def feed(self, character: str) -> bool:
        """Whether this character completes the stop."""
        self.reached_chars = self._next(self.reached_chars, character)
        if self.reached_chars < len(self.text):
            return False
        self.reached_chars = self._shorter[-1]
        return True

    def begins_in_tail_of(self, text: str) -> bool:
        """Whether `text`, in which the stop is not, ends with a beginning of it."""
        reached = 0
        for character in text[max(0, len(text) - len(self.text) + 1) :]:
            reached = self._next(reached, character)
        return reached > 0

    def _next(self, reached: int, character: str) -> int:
        while reached and self.text[reached] != character:
            reached = self._shorter[reached]
        return reached + (self.text[reached] == character)


class StopWatch:
    """The ids of a completion that may be shown, as they come, up to its first stop string.

    As in vLLM, the text has special tokens in it, what is sampled within the first `min_tokens` cannot complete a
    stop, and of several stops the one that ends first counts. A stop id at the end of the completion is no text.
    However the ids are cut into pieces, those that are shown join to the same. Without stop strings they pass as
    they are. With a stop, they are those that lie wholly in the text that is to be seen, then its rest encoded anew.
    """

    def __init__(self, tokenizer: Tokenizer, sampling: Sampling, stop_ids: Sequence[int]) -> None:
        self.stop: StopMatch | None = None
        """The stop, once it is found; ids behind it are ignored."""
        self._tokenizer = tokenizer
        self._stops = [_Stop(text) for text in sampling.stop]
        self._firsts = {text[0] for text in sampling.stop}
        self._reached_chars = 0
        """The longest end of the text that is a beginning of a stop."""
        self._shows_stop = bool(sampling.include_stop_str_in_output)
        self._min_tokens = sampling.min_tokens or 0
        self._stop_ids = frozenset(stop_ids)
        self._decoder = Decoder(tokenizer) if sampling.stop else None
        self._seen = 0
        self._ids: deque[int] = deque()
        """Not shown yet."""
        self._text = ""
        """What they say, as far as it is known."""
        self._start = 0
        """Where that begins in the whole text."""
        self._ends: deque[tuple[int, bool]] = deque()
        """Where the text of each of them ends in the whole text, and whether that is within a character."""
        self._last: list[int] = []

    def feed(self, ids: Sequence[int]) -> list[int]:
        """Take the next ids; those that may be shown now, since no stop string can reach back to them any more."""
        if self._decoder is None:
            return [*ids]
        ids = [*self._last, *ids]
        self._last = [ids.pop()] if ids and ids[-1] in self._stop_ids else []
        shown: list[int] = []
        at, size = 0, _BLOCK
        while at < len(ids) and self.stop is None:
            block = ids[at : at + size]
            if len(block) == 1:
                self._ids += block
                shown += self._take(self._decoder.step(block[0]))
            elif self._is_far_from_stops(self._decoder, block):
                shown += block
            else:
                size = len(block) // 2
                continue
            at, size = at + len(block), min(2 * size, _BLOCK)
        return shown

    def finish(self) -> list[int]:
        """No more ids will come: the rest that is to be shown."""
        if self._decoder is None or self.stop:
            return []
        held, rest = self._decoder.held(), self._decoder.finish()
        shown = self._take(held)
        if not self.stop and not held:
            shown += self._read(rest, torn=False)  # half a character, after all ids
        return shown if self.stop else [*shown, *self._ids, *self._last]

    def _is_far_from_stops(self, decoder: Decoder, block: list[int]) -> bool:
        """Whether no stop string ends in `block`, or may yet end behind it; then it is taken."""
        if self._ids or self._reached_chars or decoder.holds_back:
            return False
        ahead = decoder.copy()
        text = ahead.feed(block)
        if ahead.holds_back or any(stop.text in text or stop.begins_in_tail_of(text) for stop in self._stops):
            return False
        self._decoder = ahead
        self._seen += len(block)
        self._start += len(text)
        return True

    def _take(self, said: Sequence[Said]) -> list[int]:
        """Take what ids say; those that may be shown now."""
        shown: list[int] = []
        for one in said:
            self._seen += 1
            self._ends.append((self._start + len(self._text) + len(one.text), one.torn))
            shown += self._read(one.text, torn=one.torn)
            if self.stop:
                break
            held_chars = 0 if self._shows_stop else self._reached_chars
            count, end = self._whole_until(self._start + len(self._text) - held_chars)
            shown += self._release(count, end)
        return shown

    def _read(self, text: str, *, torn: bool) -> list[int]:
        """Take the text of the last id; what is to be shown, if it completes a stop."""
        start = self._start + len(self._text)
        self._text += text
        if not self._reached_chars and self._firsts.isdisjoint(text):
            return []
        for nth, character in enumerate(text, 1):
            completed = [stop.text for stop in self._stops if stop.feed(character)]
            if completed and self._seen > self._min_tokens:
                self.stop = StopMatch(self._seen, cut=torn or nth < len(text))
                return self._shown_until(start + nth - (0 if self._shows_stop else len(completed[0])))
        self._reached_chars = max(stop.reached_chars for stop in self._stops)
        return []

    def _shown_until(self, limit: int) -> list[int]:
        count, end = self._whole_until(limit)
        tail = self._text[end - self._start : limit - self._start]
        shown = self._release(count, end)
        return [*shown, *self._tokenizer.encode(tail, add_special_tokens=False)] if tail else shown

    def _release(self, count: int, end: int) -> list[int]:
        """The first `count` ids, whose text ends at `end`."""
        if count:
            self._text, self._start = self._text[end - self._start :], end
        for _ in range(count):
            self._ends.popleft()
        return [self._ids.popleft() for _ in range(count)]

    def _whole_until(self, limit: int) -> tuple[int, int]:
        """How many ids end on a whole character up to `limit`, and where the last of them does."""
        count, at = 0, self._start
        for nth, (end, torn) in enumerate(self._ends, 1):
            if end + torn > limit:
                break
            if not torn:
                count, at = nth, end
            elif self._text[end - self._start] == TORN:  # bytes that are no character, so none is torn
                count, at = nth, end + 1
        return count, at
