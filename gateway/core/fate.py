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
        return Fate(ledger.was_delivered(turn), dropped)

    return fate
