"""Which turns of a session stand in which training rows, and which of those train them.

A segment tree hangs below each turn whose prompt was rendered in full: its children are the turns whose prompts extend
their parent's ids. A row is one path from the root of such a tree to a leaf, so every sampled id stands in exactly the
context it was sampled in. Rows of one tree share their first turns; who trains those is settled when it is known
which rows there are, so that nothing is lost with a row that was not selected.

All this costs the number of turns, however long they are.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from gateway.core.fate import Moment, fates
from gateway.core.ledger import Ledger
from gateway.core.selection import ExcludedBecause, Masked, Selection
from gateway.core.turn import Turn
from gateway.core.types import JsonObject


@dataclass(frozen=True, slots=True, eq=False)
class SessionAt:
    """What one session gives to its rollout, as it was at a moment."""

    ledger: Ledger
    moment: Moment
    session: JsonObject
    """What each of its rows says of it: its id, its reward."""


@dataclass(frozen=True, slots=True)
class Excluded:
    """A turn that no row trains."""

    turn: Turn
    because: ExcludedBecause


class Segments:
    """Which turns of a session stand in which rows, and which of those train them."""

    def __init__(self, source: SessionAt, selection: Selection, fresh: frozenset[str] | None) -> None:
        self.source = source
        self.selection = selection
        self.fate = fates(source.ledger, source.moment)
        self._fresh = fresh
        self._turns = source.ledger.turns[: source.moment.turns]
        self._why = {turn: selection.why_not(turn, self.fate(turn)) for turn in self._turns}
        leaves = self._selected()
        self._first, _ = _holders(self._turns, leaves)
        if selection.shared == "once":
            trains = {leaves[first] for turn, first in self._first.items() if self._why[turn] is None}
            leaves = [leaf for leaf in leaves if leaf in trains]
        self.leaves: Sequence[Turn] = leaves
        """The last turn of each row. Trees come in the order in which they began, so after whatever they continue."""
        self._first, self._count = _holders(self._turns, leaves)

    def _selected(self) -> list[Turn]:
        """The last turns of the selected rows, whose turns may be trained if they are trained nowhere else."""
        among = [turn for turn in self._turns if turn.status == "complete" or self.selection.include_aborted]
        extended = {turn.base for turn in among}
        trees: dict[Turn, int] = {}
        worth: set[Turn] = set()
        for turn in among:
            trees[turn] = len(trees) if turn.base is None else trees[turn.base]
            if self._why[turn] is None or turn.base in worth:
                worth.add(turn)
        leaves = [turn for turn in among if turn in worth and turn not in extended]
        if self.selection.leaves == "latest":
            return leaves[-1:]
        return sorted(leaves, key=trees.__getitem__)

    def first_row(self, turn: Turn | None) -> int | None:
        """The first row that holds a turn, by its number among those of the session; ``None`` where none does."""
        return None if turn is None else self._first.get(turn)

    def rows_of(self, turn: Turn) -> int:
        """How many rows hold a turn."""
        return self._count[turn]

    def is_stale(self, version: str) -> bool:
        """Whether what a policy version sampled is too old to be trained on."""
        return self._fresh is not None and version not in self._fresh

    def trained_ids(self, turn: Turn) -> int:
        """How many ids of a turn are trained where it is."""
        if self._why[turn] is not None:
            return 0
        return sum(span.end - span.start for span in turn.completion.spans if not self.is_stale(span.version))

    def masked(self, turn: Turn, row: int) -> Masked | None:
        """Why a row does not train a turn of its own; ``None`` if it does."""
        why = self._why[turn]
        if why is None and not self.trained_ids(turn):
            why = "stale"
        if why is None and self.selection.shared == "once" and self._first[turn] != row:
            why = "earlier_row"
        return why

    def trainable_tokens(self) -> int:
        """The sum of all masks, or of all weights where turns are split."""
        times = self._count if self.selection.shared == "duplicate" else dict.fromkeys(self._count, 1)
        return sum(self.trained_ids(turn) * count for turn, count in times.items())

    def excluded(self) -> Iterator[Excluded]:
        """The turns that no row trains, oldest first."""
        for turn in self._turns:
            if turn.status == "aborted" and not self.selection.include_aborted:
                yield Excluded(turn, "aborted")
            elif (why := self._why[turn]) is not None:
                yield Excluded(turn, why)
            elif not self.trained_ids(turn):
                yield Excluded(turn, "stale")
            elif turn not in self._first:
                yield Excluded(turn, "leaf")


def _holders(turns: Sequence[Turn], leaves: Sequence[Turn]) -> tuple[dict[Turn, int], dict[Turn, int]]:
    """For each turn that stands in one of the rows that end in `leaves`: the first such row, and how many there are."""
    first = {leaf: row for row, leaf in enumerate(leaves)}
    count = dict.fromkeys(leaves, 1)
    for turn in reversed(turns):  # what extends a turn comes after it
        if turn in first and turn.base is not None:
            first[turn.base] = min(first[turn], first.get(turn.base, first[turn]))
            count[turn.base] = count[turn] + count.get(turn.base, 0)
    return first, count
