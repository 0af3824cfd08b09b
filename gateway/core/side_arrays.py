"""What an engine says of positions beside ids and logprobs: which experts it routed to, what could have been sampled.

Held as bytes, as they came; a position's item may be anything from one byte to a thousand ids.
"""

import math
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, get_args

from gateway.errors import LedgerError

SideArrayName = Literal["routed_experts", "sampling_mask"]
SIDE_ARRAYS: tuple[SideArrayName, ...] = get_args(SideArrayName)
ITEM_BYTES = {"|u1": 1, "<u2": 2, "<i4": 4, "<u4": 4}
"""The types that there are, as numpy writes them, with their sizes."""


@dataclass(frozen=True, slots=True)
class SideArray:
    """One item for each position of a run.

    Raises:
        LedgerError: `data` is not what `dtype` and `shape` say, or `offsets` do not tile it.
    """

    start: int
    """The run's first position: in a completion counted from the first sampled id, and so below zero in the prompt;
    in a row counted from the row's first id."""
    dtype: str
    """One of `ITEM_BYTES`."""
    shape: tuple[int, ...]
    """Shape of the whole: of items of one shape ``(positions, …)``, of lists ``(numbers,)``."""
    data: bytes
    """The numbers, C order, little-endian."""
    offsets: "array[int] | None" = None
    """Where items are lists: that of position `start + i` lies at ``[offsets[i], offsets[i + 1])``."""

    def __post_init__(self) -> None:
        if self.dtype not in ITEM_BYTES:
            raise LedgerError(f"{self.dtype!r} is no dtype of a side array, which are {', '.join(ITEM_BYTES)}")
        due = math.prod(self.shape) * ITEM_BYTES[self.dtype]
        if not self.shape or min(self.shape) < 0 or len(self.data) != due:
            raise LedgerError(f"{len(self.data)} bytes are no {self.dtype} of shape {self.shape}")
        if self.offsets is not None and not _tile(self.offsets, self.shape):
            raise LedgerError(f"the offsets of a side array do not tile its {self.shape} numbers")

    def __len__(self) -> int:
        """How many positions it speaks of."""
        return self.shape[0] if self.offsets is None else len(self.offsets) - 1

    @property
    def end(self) -> int:
        """The position after the last."""
        return self.start + len(self)

    def part(self, start: int, end: int) -> "SideArray":
        """What it says of the positions ``[start, end)``.

        Raises:
            LedgerError: it does not speak of all of them.
        """
        if not self.start <= start <= end <= self.end:
            raise LedgerError(f"positions {start} to {end} are not within {self.start} to {self.end}")
        first, last = start - self.start, end - self.start
        if self.offsets is None:
            size = self._item_bytes
            return SideArray(start, self.dtype, (end - start, *self.shape[1:]), self.data[first * size : last * size])
        origin, width = self.offsets[first], ITEM_BYTES[self.dtype]
        offsets = array("I", [offset - origin for offset in self.offsets[first : last + 1]])
        data = self.data[origin * width : self.offsets[last] * width]
        return SideArray(start, self.dtype, (offsets[-1],), data, offsets)

    def moved(self, start: int) -> "SideArray":
        """The same, of positions from `start` on."""
        return SideArray(start, self.dtype, self.shape, self.data, self.offsets)

    @property
    def _item_bytes(self) -> int:
        return math.prod(self.shape[1:]) * ITEM_BYTES[self.dtype]


def _tile(offsets: "array[int]", shape: tuple[int, ...]) -> bool:
    ascends = all(before <= after for before, after in pairwise(offsets))
    return len(shape) == 1 and len(offsets) > 0 and offsets[0] == 0 and offsets[-1] == shape[0] and ascends


def check_lengths(arrays: Mapping[str, SideArray], length: int) -> None:
    """Hold the side arrays of a completion of `length` ids to the positions that each must speak of.

    The model routes all that it reads, and so everything but the last id that it samples: `routed_experts` end there,
    wherever they begin. A `sampling_mask` is a list of ids for each that was sampled.

    Raises:
        LedgerError: one does not.
    """
    for name, held in arrays.items():
        match name:
            case "routed_experts":
                right = held.start <= 0 and held.end == length - 1 and held.offsets is None
            case "sampling_mask":
                right = (held.start, held.end) == (0, length) and held.offsets is not None
            case _:
                raise LedgerError(f"{name!r} is none of the side arrays {', '.join(SIDE_ARRAYS)}")
        if not right:
            raise LedgerError(f"{name} of positions {held.start} to {held.end} are not those of {length} sampled ids")


def head(arrays: Mapping[str, SideArray], length: int) -> dict[str, SideArray]:
    """The side arrays of the first `length` ids of a completion."""
    return {name: held.part(held.start, _end(name, length)) for name, held in arrays.items()}


def _end(name: str, length: int) -> int:
    """Where the array of a completion of `length` ids ends."""
    return length - 1 if name == "routed_experts" else length


def own_positions(name: str, start: int, end: int, before: int) -> tuple[int, int]:
    """The positions of a row's side array that are those of the turn which sampled ``[start, end)``.

    That is what the engine said when the turn was sampled, and not what a later call may have said of the same
    positions: the logprobs of the turn were computed so, and rows that share a turn agree on it. So a turn has the
    `routed_experts` from the last id of the turn before on, which nobody had read until then, and the `sampling_mask`
    of what it sampled. The turn before ends at `before`, which is 0 for the first.
    """
    return (max(before - 1, 0) if name == "routed_experts" else start), start + _end(name, end - start)


Place = tuple[int, int, SideArray | None]
"""A turn of a row: the position of its first sampled id, that after its last, and its side array, if it has one."""


def stitched(name: str, places: Sequence[Place]) -> SideArray | None:
    """The side array of a row, made of those of its turns.

    Lists are empty where nothing was sampled between two turns. ``None`` where a turn has no array, or one that
    begins too late, and where items differ in type or shape.
    """
    parts, before = list[SideArray](), 0
    for start, end, held in places:
        first, last = own_positions(name, start, end, before)
        if held is None or held.start > first - start:
            return None
        parts.append(held.part(first - start, last - start).moved(first))
        before = end
    if not parts or len({(part.dtype, part.shape[1:], part.offsets is None) for part in parts}) > 1:
        return None
    data = b"".join(part.data for part in parts)
    total = sum(part.shape[0] for part in parts)
    shape = (total, *parts[0].shape[1:])
    offsets = None if parts[0].offsets is None else _joined_offsets(parts)
    return SideArray(parts[0].start, parts[0].dtype, shape, data, offsets)


def _joined_offsets(parts: Sequence[SideArray]) -> "array[int]":
    joined = array("I", [0])
    for part in parts:
        assert part.offsets is not None  # or they would not be alike
        total = joined[-1]
        joined.extend([total] * (part.start - parts[0].start - (len(joined) - 1)))  # what lies between
        joined.extend([total + offset for offset in part.offsets[1:]])
    return joined
