"""How far a history is known: a walk down the messages of a session.

Histories that begin alike are one path in the session's tree (`Tree`), told apart by what is said and not by a digest
of it: a path is what a rolling digest would stand for, and cannot collide. All readings of a history are followed at
once, message by message. The cost is that of the messages, and at each prompt that of its answers; readings
multiply only where answers to one prompt are alike.
"""

from array import array
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from gateway.core.canon import Difference, Policy, Root, accepted_differences, identity
from gateway.core.tree import Tree
from gateway.core.turn import Node, Turn
from gateway.core.types import Message, Messages, token_ids

_NOTHING = token_ids()
_DOUBTFUL = {"calls_ignored", "reasoning_ignored", "tool_call_id_missing"}
"""Differences that another answer could have as well."""


class Match(NamedTuple):
    """One reading of the first `length` messages: they end in `turn`'s answer, or nothing is known at all.

    A named tuple, since one is made for each answer of a history: frozen dataclasses take five times as long.
    """

    node: Node
    """Where the answer stands; the beginning without a turn."""
    turn: Turn | None = None
    length: int = 0
    kinds: frozenset[str] = frozenset()
    """Kinds of all differences on the way."""
    before: "Match | None" = None
    """The match with the turn before, on the way."""
    added: tuple[str, ...] = ()
    """Differences of the last answer."""
    fresh: bool = False
    """Whether the last answer came back in a spelling that it was not known by."""
    ambiguous: bool = False
    """Whether others of its siblings would have done as well."""

    def differences(self) -> Mapping[str, Difference]:
        """The accepted differences, each with the answers and tokens that it concerns."""
        answers, tokens = Counter[str](), Counter[str]()
        for turn, match in self.way():
            for kind in match.added:
                answers[kind] += 1
                tokens[kind] += len(turn.completion.ids)
        if self.turn is not None and self.ambiguous:
            answers["ambiguous_sibling"], tokens["ambiguous_sibling"] = 1, len(self.turn.completion.ids)
        return {kind: Difference(answers[kind], tokens[kind]) for kind in sorted(answers)}

    def way(self) -> "Iterator[tuple[Turn, Match]]":
        """The answers that were met, the last first, and how."""
        match: Match | None = self
        while match is not None and match.turn is not None:
            yield match.turn, match
            match = match.before

    def recorded(self, messages: Messages) -> list[Message]:
        """`messages` with our answers among them as they were recorded."""
        found = list(messages)
        for turn, match in self.way():
            found[match.length - 1] = turn.message
        return found


def find(tree: Tree, messages: Messages, root: Root | None, policy: Policy, order: Mapping[Turn, int]) -> Match:
    """The deepest answer of ours that `messages` hold, of lineage `root`, or whatever stands above it with ``None``.

    `order` tells which of two turns is the later one. `messages` come without the leading system messages.
    """
    best = Match(tree.origin)
    readings, numbers = [(tree.origin, _NOTHING, 0, best)], tree.numbers
    for length, message in enumerate(messages, 1):
        said = identity(message)
        number = numbers.get(said)
        further: list[tuple[Node, array[int], int, Match]] = []
        matched: list[Match] = []
        for node, run, offset, match in readings:
            if offset < len(run):
                if run[offset] == number:
                    further.append((node, run, offset + 1, match))
                continue
            if node.answers and message.role == "assistant":
                for turn in node.answers:
                    if root is None or turn.root is root or turn.root == root:
                        found = _answer(turn, message, said, length, match, policy)
                        if found is not None:
                            matched.append(found)
                            further.append((found.node, _NOTHING, 0, found))
            if number is not None and number in node.children:
                child = node.children[number]
                further.append((child, child.numbers(), 1, match))
        if matched:
            best = matched[0] if len(matched) == 1 else _preferred(matched, order)
        if not further:
            break
        readings = further
    return best


def _answer(turn: Turn, message: Message, said: object, length: int, before: Match, policy: Policy) -> Match | None:
    """The match with a turn whose answer came back as `message`; ``None`` if it did not.

    A replay that is the record, or was accepted before, is not looked at again: clients replay an answer in one
    spelling again and again, and to compare arguments as JSON each time made the match of 2,000 turns cost 18 times
    what reading their body costs, instead of 4 (``bench/matching``).
    """
    known, kinds = turn.node.replay, before.kinds
    assert known is not None  # only what is committed answers
    fresh = known.said != said
    added = accepted_differences(turn.message, message, policy) if fresh else known.differences
    if added is None:
        return None
    if added and not kinds.issuperset(added):
        kinds = kinds.union(added)
    return Match(turn.node, turn, length, kinds, before, added, fresh)


def _preferred(matched: Sequence[Match], order: Mapping[Turn, int]) -> Match:
    """Among siblings that may be meant: the one that fits best, else the latest, which is then audited.

    It fits best whose differences leave least in doubt, and are fewest. Another that differs in dropped
    reasoning only may be meant as well, since most clients drop it always.
    """
    doubts = [(len(match.kinds & _DOUBTFUL), len(match.kinds)) for match in matched]
    closest = [match for match, doubt in zip(matched, doubts, strict=True) if doubt == min(doubts)]
    best = max(closest, key=lambda match: order[match.turn] if match.turn else -1)
    allowed = best.kinds | {"reasoning_dropped"}
    ambiguous = len(closest) > 1 or any(match is not best and match.kinds <= allowed for match in matched)
    return best._replace(ambiguous=ambiguous)
