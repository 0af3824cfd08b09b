"""The histories of a session as one tree: what begins alike is kept once.

Messages are numbered by what they say, and each is kept once however often it is sent. A run of numbers without a
branch or an answer of ours in it is one node (a radix tree), and a long run is stored as its difference from an
earlier one. So a client that changes its first message every turn, and thereby brings a history that was never seen,
costs what is new in it.

Mutable state: the tree's attributes and its nodes, written by `Tree.link` only.
"""

from array import array
from collections.abc import Iterator, Sequence
from itertools import takewhile

from gateway.core.canon import identity
from gateway.core.rope import Rope, rope
from gateway.core.turn import Node, Turn, numbers_of
from gateway.core.types import Message, Messages, token_ids

_LONG_RUN = 64
"""Messages in a run from which on it pays to look for what it repeats."""


class Tree:
    """All that was said in a session, save the leading system messages, which belong to the lineage roots."""

    def __init__(self) -> None:
        self.origin = Node(None, token_ids(), None)
        """The beginning of every history."""
        self.messages: list[Message] = []
        """What was said, by its number; only read elsewhere."""
        self.numbers: dict[object, int] = {}
        """What was ever said has a number, by its identity; only read elsewhere."""

    def follow(self, node: Node, messages: Messages) -> Iterator[tuple[Node, bool]]:
        """After each of `messages`, as far as clients said just these from `node` on: where that is.

        That is a node, and whether its end has been reached.
        """
        run, offset = token_ids(), 0
        for message in messages:
            number = self.numbers.get(identity(message))
            if number is None:
                return
            if offset == len(run):
                child = node.children.get(number)
                if child is None:
                    return
                node, run, offset = child, child.numbers(), 0
            if run[offset] != number:
                return
            offset += 1
            yield node, offset == len(run)

    def link(self, node: Node, messages: Messages, turn: Turn, like: Turn | None) -> Node:
        """The point after `messages` from `node` on, made if need be: `turn` is the latest that brought them.

        A long run is stored as its difference from the one that `like` brought.
        """
        numbers = token_ids([self._numbered(message) for message in messages])
        done = 0
        while done < len(numbers) and (child := node.children.get(numbers[done])) is not None:
            run = child.numbers()
            alike = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(run, numbers[done:], strict=False)))
            node = child if alike == len(run) else _split(child, run, alike)
            node.turn = turn
            done += alike
        if done == len(numbers):
            return node
        further = Node(node, _stored(numbers[done:], like), turn)
        node.children[numbers[done]] = further
        return further

    def path(self, node: Node) -> list[Message]:
        """The messages from the beginning to `node`."""
        found: list[Message] = []
        at: Node | None = node
        while at is not None:
            parent, run = at.way
            said = numbers_of(run)
            if parent is not None and not said and at.turn is not None:
                found.append(at.turn.message)
            found += [self.messages[number] for number in reversed(said)]
            at = parent
        return found[::-1]

    def _numbered(self, message: Message) -> int:
        number = self.numbers.setdefault(identity(message), len(self.messages))
        if number == len(self.messages):
            self.messages.append(message)
        return number


def _stored(numbers: "array[int]", like: Turn | None) -> "array[int] | Rope":
    if len(numbers) < _LONG_RUN:
        return numbers
    run = like.asked.run if like else None
    return rope(numbers, like=run if isinstance(run, Rope) else None)


def _split(node: Node, run: "array[int]", at: int) -> Node:
    """Part a node's run; the new node holds the first part."""
    assert node.parent is not None  # the beginning has no run
    parts: Sequence[array[int] | Rope] = run[:at], run[at:]
    if isinstance(node.run, Rope):
        parts = node.run.part(0, at), node.run.part(at, len(run))
    upper = Node(node.parent, parts[0], node.turn)
    node.parent.children[run[0]] = upper
    node.way = upper, parts[1]
    upper.children[run[at]] = node
    return upper
