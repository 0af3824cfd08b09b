"""What an engine might have sampled instead, and what makes a logprob evidence."""

import math
from array import array
from dataclasses import dataclass

from gateway.errors import LedgerError


def check_logprobs(ids: "array[int]", logprobs: "array[float]") -> None:
    """Hold ids to a logprob each.

    Raises:
        LedgerError: they differ in number, or one is not a finite number at or below zero.
    """
    if len(ids) != len(logprobs):
        raise LedgerError(f"{len(ids)} ids but {len(logprobs)} logprobs")
    if not all(math.isfinite(value) and value <= 0 for value in logprobs):
        raise LedgerError("a logprob must be a finite number at or below zero")


@dataclass(frozen=True, slots=True)
class Alternatives:
    """The ids that an engine names beside each sampled one, `width` of them for every completion id.

    Raises:
        LedgerError: `width` is below one; ids and logprobs differ in number; or a logprob is not a
            finite number at or below zero.
    """

    width: int
    ids: "array[int]"
    """The rows of all completion ids one after the other, each in the engine's order; shape ``(C, width)``."""
    logprobs: "array[float]"
    """Natural-log probability of each of `ids`, nats; -9999.0 where nothing could have sampled it."""

    def __post_init__(self) -> None:
        if self.width < 1:
            raise LedgerError(f"alternatives in rows of {self.width} say nothing")
        check_logprobs(self.ids, self.logprobs)

    def most_likely(self, position: int, count: int) -> list[tuple[int, float]]:
        """Up to `count` ids with their logprobs at completion id `position`, the most likely first."""
        row = slice(position * self.width, (position + 1) * self.width)
        pairs = zip(self.ids[row], self.logprobs[row], strict=True)
        return sorted(pairs, key=lambda pair: -pair[1])[:count]

    def part(self, start: int, end: int) -> "Alternatives":
        """Those of the completion ids ``[start, end)``."""
        rows = slice(start * self.width, end * self.width)
        return Alternatives(self.width, self.ids[rows], self.logprobs[rows])
