"""What became of a turn after it was recorded: did its answer arrive, and did the harness go on from it?"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from gateway.core.canon import Root
from gateway.core.ledger import Ledger
from gateway.core.turn import Node, Turn


@dataclass(frozen=True, slots=True)
class Fate:
    """What is known of one turn."""

    delivered: bool | None
    """Whether its answer left for its client; ``None`` when that is not known."""
    dropped: bool
    """Whether the harness went on from the same prompt without it: from a sibling, or with another message."""
    continued: bool = False
    """Whether a later turn goes on from it."""


Fates = Callable[[Turn], Fate]


class Moment(NamedTuple):
    """How much a session knew: what is told of one moment stays as it was, though the session goes on."""

    turns: int
    deliveries: int


def moment_of(ledger: Ledger) -> Moment:
    """How much it knows now."""
    return Moment(len(ledger.turns), len(ledger.deliveries))


def fates(ledger: Ledger, moment: Moment | None = None) -> Fates:
    """The fate of each turn that there was at a moment, or now. Costs the number of turns and messages."""
    known = moment or moment_of(ledger)
    turns, delivered = ledger.turns[: known.turns], ledger.deliveries.known(known.deliveries)
    continued = {turn.parent for turn in turns}
    passed: set[tuple[Root, Node]] = set()
    for turn in turns:
        if turn in continued:
            passed.add((turn.root, turn.asked))
        end = turn.parent.node if turn.parent else None
        node: Node | None = turn.asked
        while node is not None and node is not end:
            node = node.parent
            if node is None or (turn.root, node) in passed:
                break
            passed.add((turn.root, node))

    def fate(turn: Turn) -> Fate:
        answered = turn.status == "complete"  # or there was nothing to drop
        dropped = answered and turn not in continued and (turn.root, turn.asked) in passed
        return Fate(delivered.get(turn), dropped, turn in continued)

    return fate
