"""The ledger as training rows.

A segment tree hangs below each turn whose prompt was rendered in full: its children are the turns whose
prompts extend their parent's ids. A row is one path from the root of such a tree to a leaf, so every
sampled id stands in exactly the context it was sampled in. Rows of one tree share their first turns; each
turn is trained in the first row that holds it and masked in the others, so that no sampled id is trained
twice. Aborted turns extend nothing and are left out; so are rows with nothing to train, because the harness
said ``train: false`` of their turns.
"""

from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile

from gateway.core.turn import Turn, upwards
from gateway.core.types import float32s


@dataclass(frozen=True, slots=True)
class RowTurn:
    """Where one turn lies in a row."""

    turn: Turn
    start: int
    """Position of the turn's first sampled id."""
    end: int
    """Position after its last."""
    trained: bool
    """Whether this row trains the turn; an earlier row does otherwise, or none by the harness's wish."""


@dataclass(frozen=True, slots=True)
class Row:
    """One segment path, ready to train on."""

    id: str
    """The id of the last turn; a row grows with its last turn, and then has another id."""
    token_ids: "array[int]"
    """The last prompt and completion; shape ``(L,)``."""
    loss_mask: "array[int]"
    """1 where the id was sampled and this row trains it, else 0; shape ``(L,)``."""
    logprobs: "array[float]"
    """Log-probability of each sampled id in nats, 0.0 where nothing was sampled; shape ``(L,)``."""
    turns: tuple[RowTurn, ...]


class Rows:
    """The rows of all complete turns, oldest leaf first.

    Each is made when it is asked for: rows repeat their context, so all of them together can be as large as
    the square of what was said.
    """

    def __init__(self, turns: Sequence[Turn]) -> None:
        complete = [turn for turn in turns if turn.status == "complete"]
        extended = {turn.base for turn in complete}
        self._leaves: list[Turn] = []
        self._owners: dict[Turn, Turn] = {}
        # The leaf of the first row that holds a turn.
        for leaf in complete:
            if leaf in extended:
                continue
            segment = upwards(leaf, lambda turn: turn.base)
            new = list(takewhile(lambda turn: turn not in self._owners, segment))  # above one that is not, none is
            self._owners |= dict.fromkeys(new, leaf)
            if any(turn.labels.train for turn in new):
                self._leaves.append(leaf)

    def __len__(self) -> int:
        return len(self._leaves)

    def __iter__(self) -> Iterator[Row]:
        return (self[index] for index in range(len(self)))

    def __getitem__(self, index: int) -> Row:
        leaf = self._leaves[index]
        ids = leaf.sequence.ids()
        mask, logprobs, parts = array("B", bytes(len(ids))), float32s([0.0]) * len(ids), []
        for turn in leaf.segment():
            start, trained = turn.prompt.length, turn.labels.train and self._owners[turn] is leaf
            end = start + len(turn.completion.ids)
            logprobs[start:end] = turn.completion.logprobs
            if trained:
                mask[start:end] = array("B", b"\1") * (end - start)
            parts.append(RowTurn(turn, start, end, trained))
        return Row(leaf.id, ids, mask, logprobs, tuple(parts))
