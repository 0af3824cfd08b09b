"""The ledger as training rows.

A segment tree hangs below each turn whose prompt was rendered in full: its children are the turns whose
prompts extend their parent's ids. A row is one path from the root of such a tree to a leaf, so every
sampled id stands in exactly the context it was sampled in. Rows of one tree share their first turns; each
turn is trained in the first exported row that holds it and masked in the others, so that no sampled id is
trained twice. Aborted turns extend nothing and are left out.
"""

from array import array
from collections.abc import Sequence
from dataclasses import dataclass

from gateway.core.turn import Turn
from gateway.core.types import float32s, token_ids


@dataclass(frozen=True, slots=True)
class RowTurn:
    """Where one turn lies in a row."""

    turn: Turn
    start: int
    """Position of the turn's first sampled id."""
    end: int
    """Position after its last."""
    trained: bool
    """Whether this row owns the turn; an earlier row does otherwise."""


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


def rows(turns: Sequence[Turn]) -> list[Row]:
    """The rows of all complete turns, oldest leaf first."""
    complete = [turn for turn in turns if turn.status == "complete"]
    extended = {turn.base for turn in complete}
    owned: set[Turn] = set()
    return [_row(leaf, owned) for leaf in complete if leaf not in extended]


def _row(leaf: Turn, owned: set[Turn]) -> Row:
    ids, mask, logprobs, parts = token_ids(), array("B"), float32s(), []
    for turn in leaf.segment():
        trained = turn not in owned
        owned.add(turn)
        context, sampled = len(turn.prompt_delta), len(turn.completion.ids)
        ids += turn.prompt_delta + turn.completion.ids
        mask.extend([0] * context + [int(trained)] * sampled)
        logprobs += float32s([0.0] * context) + turn.completion.logprobs
        parts.append(RowTurn(turn, len(ids) - sampled, len(ids), trained))
    return Row(leaf.id, ids, mask, logprobs, tuple(parts))
