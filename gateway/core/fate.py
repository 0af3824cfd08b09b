"""What became of a turn after it was recorded: did its answer arrive, and did the harness go on from it?"""

from collections.abc import Callable
from dataclasses import dataclass

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


Fates = Callable[[Turn], Fate]


def fates(ledger: Ledger) -> Fates:
    """The fate of each turn of a session, as of now. Costs the number of its turns and messages."""
    continued = {turn.parent for turn in ledger.turns}
    passed: set[tuple[Root, Node]] = set()
    for turn in ledger.turns:
        if turn in continued:
            passed.add((turn.root, turn.asked))
        node = turn.asked.parent
        end = turn.parent.node if turn.parent else None
        while node is not None and node is not end and (turn.root, node) not in passed:
            passed.add((turn.root, node))
            node = node.parent

    def fate(turn: Turn) -> Fate:
        dropped = turn not in continued and (turn.root, turn.asked) in passed
        return Fate(ledger.was_delivered(turn), dropped)

    return fate
