"""Token ids stored as their difference from earlier ones.

A session's prompts repeat each other: a bridged prompt is its parent and a little more, and a history that is
edited every turn is rendered in full every turn, though most of it was there before. Kept whole, five hundred
such prompts would cost the square of what was said; kept as slices of earlier prompts and the ids that are
new, they cost what was said.
"""

from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from gateway.core.types import token_ids

_WINDOW = 32
"""Ids that must reappear together before a slice is worth its name."""
_MISSES = 64
"""Windows in a row that are looked for in vain before only every second one is looked for, and so on: a prompt that is
all new costs hundreds of searches then, not thousands. What is leapt over is found backwards from the next hit."""
_MOST_ID = 0x10FFFF
"""The largest id that can be searched for as a character."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Rope:
    """A run of ids: slices of `base` and ids of its own, in order."""

    base: "Rope | None"
    pieces: "tuple[array[int] | tuple[int, int], ...]"
    """Own ids, or the start and end of a slice of the base."""
    length: int

    def ids(self) -> "array[int]":
        """All of them; shape ``(length,)``. Costs the length, and a step for each piece of each rope below."""
        found: list[array[int]] = []
        todo: list[tuple[Rope, int, int] | array[int]] = [(self, 0, self.length)]
        while todo:  # from the end to the beginning
            part = todo.pop()
            if not isinstance(part, tuple):
                found.append(part)
                continue
            run, start, end = part
            todo += run._parts(start, end) if end - start < run.length else run._whole()
        whole = token_ids()
        whole.frombytes(b"".join(reversed(found)))
        return whole

    def _whole(self) -> "list[tuple[Rope, int, int] | array[int]]":
        """As `_parts` of all; bridged prompts are chains of hundreds of these, and to cut each costs twice as much."""
        return [(self._base(), *piece) if isinstance(piece, tuple) else piece for piece in self.pieces]

    def _base(self) -> "Rope":
        assert self.base is not None  # what else would it be a slice of
        return self.base

    def _parts(self, start: int, end: int) -> "Iterator[tuple[Rope, int, int] | array[int]]":
        """What makes up ids `start` to `end`."""
        position = 0
        for piece in self.pieces:
            size = piece[1] - piece[0] if isinstance(piece, tuple) else len(piece)
            low, high = max(start - position, 0), min(end - position, size)
            position += size
            if low >= high:
                continue
            if isinstance(piece, tuple):
                yield self._base(), piece[0] + low, piece[0] + high
            else:
                yield piece[low:high]

    def part(self, start: int, end: int) -> "Rope":
        """Ids `start` to `end` alone, as slices of the same base."""
        pieces = [part[1:] if isinstance(part, tuple) else part for part in self._parts(start, end)]
        return Rope(self.base, tuple(pieces), end - start)

    def extended(self, *more: "array[int]") -> "Rope":
        """More ids after these."""
        return Rope(self, ((0, self.length), *more), self.length + sum(map(len, more)))


def rope(ids: Sequence[int], *, like: Rope | None = None) -> Rope:
    """`ids`, as slices of `like` where they repeat it in long runs. Costs both lengths."""
    new = token_ids(ids)
    old = like.ids() if like else token_ids()
    if like is None or not (old and new) or any(max(run) > _MOST_ID for run in (old, new)):
        return Rope(None, (new,), len(new))
    pieces: list[array[int] | tuple[int, int]] = []
    done = 0
    for start, end, position in _repeated(_text(old), _text(new)):
        if done < position:
            pieces.append(new[done:position])
        pieces.append((start, end))
        done = position + end - start
    if not pieces:
        return Rope(None, (new,), len(new))
    if done < len(new):
        pieces.append(new[done:])
    return Rope(like, tuple(pieces), len(new))


def _text(ids: "array[int]") -> str:
    """Ids as characters: searching bytes would find them where no id begins, and take seconds to reject that."""
    return ids.tobytes().decode("utf-32-le" if array("I", [1]).tobytes()[0] else "utf-32-be", "surrogatepass")


def _repeated(old: str, new: str) -> Iterator[tuple[int, int, int]]:
    """Slices of `old` that `new` repeats, as start and end in `old` and position in `new`."""
    done = _common(old, 0, new, 0)
    if done:
        yield 0, done, 0
    probe, misses = done, 0
    while probe + _WINDOW <= len(new):
        found = old.find(new[probe : probe + _WINDOW])
        if found < 0:
            misses += 1
            probe += _WINDOW << (misses // _MISSES)
            continue
        back = 0
        while found - back > 0 and probe - back > done and old[found - back - 1] == new[probe - back - 1]:
            back += 1
        end = found + _common(old, found, new, probe)
        yield found - back, end, probe - back
        done = probe = probe + end - found
        misses = 0


def _common(old: str, start: int, new: str, position: int) -> int:
    """How many characters are alike from there on."""
    low, high = 0, min(len(old) - start, len(new) - position) + 1
    while high - low > 1:  # all of `low` are alike, not all of `high`
        middle = (low + high) // 2
        alike = old[start + low : start + middle] == new[position + low : position + middle]
        low, high = (middle, high) if alike else (low, middle)
    return low
