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

_ID_BYTES = array("I").itemsize
_WINDOW = 32
"""Ids that must reappear together before a slice is worth its name."""
_MOST_PROBES = 64
"""Searches for a reappearance in one prompt. Each costs up to a tenth of a millisecond at 128k ids."""


@dataclass(frozen=True, slots=True, eq=False)
class Rope:
    """A run of ids: slices of `base` and ids of its own, in order."""

    base: "Rope | None"
    pieces: "tuple[array[int] | tuple[int, int], ...]"
    """Own ids, or the start and end of a slice of the base."""
    length: int

    def ids(self) -> "array[int]":
        """All of them; shape ``(length,)``. Costs the length, and a step for each rope below."""
        found: list[array[int]] = []
        todo: list[tuple[Rope, int, int] | array[int]] = [(self, 0, self.length)]
        while todo:  # from the end to the beginning
            part = todo.pop()
            if isinstance(part, tuple):
                run, start, end = part
                todo += run._parts(start, end)
            else:
                found.append(part)
        whole = token_ids()
        for own in reversed(found):
            whole += own
        return whole

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
                assert self.base is not None  # what else would it be a slice of
                yield self.base, piece[0] + low, piece[0] + high
            else:
                yield piece[low:high]

    def extended(self, *more: "array[int]") -> "Rope":
        """More ids after these."""
        return Rope(self, ((0, self.length), *more), self.length + sum(map(len, more)))


def rope(ids: Sequence[int]) -> Rope:
    """Ids that repeat nothing."""
    return Rope(None, (token_ids(ids),), len(ids))


def difference(base: Rope, ids: Sequence[int]) -> Rope:
    """`ids` as slices of `base` where they repeat it. Costs both lengths, and finds what repeats in long runs."""
    old, new = base.ids().tobytes(), token_ids(ids).tobytes()
    pieces: list[array[int] | tuple[int, int]] = []
    done = kept = _common(old, 0, new, 0)
    if kept:
        pieces.append((0, kept // _ID_BYTES))
    for start, end, position in _reappearances(old, new, done):
        if done < position:
            pieces.append(_own(new[done:position]))
        pieces.append((start // _ID_BYTES, end // _ID_BYTES))
        done = position + end - start
        kept += end - start
    if done < len(new):
        pieces.append(_own(new[done:]))
    return Rope(base, tuple(pieces), len(ids)) if kept else rope(ids)


def _reappearances(old: bytes, new: bytes, done: int) -> Iterator[tuple[int, int, int]]:
    """Slices of `old` that `new` repeats from byte `done` on, as start and end in `old` and position in `new`."""
    window, probe, probes = _WINDOW * _ID_BYTES, done, 0
    while probe + window <= len(new) and probes < _MOST_PROBES:
        probes += 1
        found = _find_id(old, new[probe : probe + window])
        if found < 0:
            probe += window
            continue
        start, position = found, probe
        while position > done and start > 0 and old[start - _ID_BYTES : start] == new[position - _ID_BYTES : position]:
            start, position = start - _ID_BYTES, position - _ID_BYTES
        end = found + _common(old, found, new, probe)
        yield start, end, position
        done = probe = position + end - start


def _find_id(haystack: bytes, needle: bytes) -> int:
    """Where `needle` begins at the beginning of an id; -1 if nowhere."""
    found = haystack.find(needle)
    while found % _ID_BYTES and found >= 0:
        found = haystack.find(needle, found + 1)
    return found


def _common(old: bytes, start: int, new: bytes, position: int) -> int:
    """How many bytes, in whole ids, are alike from there on."""
    low, high = 0, min(len(old) - start, len(new) - position) + 1
    while high - low > 1:  # all of `low` bytes are alike, not all of `high`
        middle = (low + high) // 2
        alike = old[start + low : start + middle] == new[position + low : position + middle]
        low, high = (middle, high) if alike else (low, middle)
    return low - low % _ID_BYTES


def _own(data: bytes) -> "array[int]":
    ids = token_ids()
    ids.frombytes(data)
    return ids
