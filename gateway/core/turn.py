"""One sampled completion, the prompt that led to it, and the messages between which it stands."""

from array import array
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from gateway.core.canon import Difference, Root, identity
from gateway.core.reason import Reason
from gateway.core.rope import Rope
from gateway.core.types import Completion, FinishReason, Labels, Message, Messages, Origin, Status


@dataclass(frozen=True, slots=True)
class Replay:
    """An answer of ours as it came back, and how it differed."""

    message: Message
    differences: tuple[str, ...]


class Node:
    """One message of a session's histories, and what was said next: histories that begin alike share their nodes.

    The leading system messages are not among them; they belong to the lineage root.
    """

    __slots__ = ("answers", "children", "message", "parent", "replay", "turn")

    def __init__(self, parent: "Node | None", message: Message) -> None:
        self.parent = parent
        self.message = message
        """At the beginning of all histories, a message that nobody said."""
        self.children: dict[object, list[Node]] = {}
        """What clients said next, by its identity. Calls that ran at once may each have a node for one message."""
        self.answers: list[Turn] = []
        """What was sampled next and is complete, whatever stands above the messages."""
        self.turn: Turn | None = None
        """The turn that brought this message, or sampled it; ``None`` as long as no turn has."""

        self.replay: Replay | None = None
        """How a client last sent this answer back, when that was taken for it and was not the very same."""

    def next(self, message: Message) -> "list[Node]":
        """Where a client went on from here with just this message."""
        return self.children.get(identity(message), []) if self.children else []

    def below(self, messages: Messages) -> "Node":
        """The node after `messages` more: known ones as far as they go, and then new ones that are not linked yet."""
        node = self
        for message in messages:
            known = node.next(message)
            node = known[0] if known else Node(node, message)
        return node

    def link(self, turn: "Turn") -> None:
        """Make this node, and the new ones above it, known to all who walk down: `turn` brought them."""
        node = self
        while node.parent is not None and node.turn is None:
            node.turn = turn
            node.parent.children.setdefault(identity(node.message), []).append(node)
            node = node.parent

    def path(self, *, after: "Node | None" = None) -> list[Message]:
        """The messages from the beginning, or from `after`, down to this one."""
        found = []
        node = self
        while node.parent is not None and node is not after:
            found.append(node.message)
            node = node.parent
        return found[::-1]

    def is_below(self, above: "Node") -> bool:
        """Whether a history that leads here leads through `above`."""
        node: Node | None = self
        while node is not None and node is not above:
            node = node.parent
        return node is above


@dataclass(frozen=True, slots=True, eq=False)
class Turn:
    """One sampled completion, stored as what it added to what was there before."""

    id: str
    root: Root
    parent: "Turn | None"
    """The turn that the agent's history continues; ``None`` starts a branch."""
    base: "Turn | None"
    """The turn whose ids this prompt starts with: the parent when bridged, ``None`` when rendered."""
    node: Node
    """The answer, at its place among the messages."""
    prompt: Rope
    """The whole prompt that the engine saw."""
    completion: Completion
    reason: Reason | None
    """Why the prompt was rendered; ``None`` when bridged."""
    differences: Mapping[str, Difference]
    """How the replayed history differed from the record, by kind."""
    flags: tuple[str, ...]
    """What was odd about the answer, such as a malformed tool call."""
    origin: Origin
    labels: Labels

    @property
    def status(self) -> Status:
        """Whether the engine finished it; an aborted turn is kept, but nothing extends it."""
        return "aborted" if self.completion.finish_reason is FinishReason.ABORT else "complete"

    @property
    def how(self) -> Literal["bridged", "rendered"]:
        """Whether the prompt extends the base's ids or was rendered in full."""
        return "rendered" if self.base is None else "bridged"

    @property
    def message(self) -> Message:
        """The answer as the client saw it."""
        return self.node.message

    @property
    def asked(self) -> Node:
        """The last message that it answers."""
        assert self.node.parent is not None
        return self.node.parent

    @property
    def sequence(self) -> Rope:
        """Prompt and completion."""
        return self.prompt.extended(self.completion.ids)

    @property
    def prompt_length(self) -> int:
        """Length ``P`` of the whole prompt."""
        return self.prompt.length

    def prompt_ids(self) -> "array[int]":
        """The whole prompt; shape ``(P,)``. Costs its length."""
        return self.prompt.ids()

    def new_messages(self) -> list[Message]:
        """The messages since the parent's answer; without a parent all but the leading system messages."""
        return self.asked.path(after=self.parent.node if self.parent else None)

    def segment(self) -> "list[Turn]":
        """The turns from the last full render down to this one; each prompt extends the one before."""
        return list(upwards(self, lambda turn: turn.base))[::-1]

    def branch(self) -> "list[Turn]":
        """The turns from the branch's first to this one."""
        return list(upwards(self, lambda turn: turn.parent))[::-1]


def upwards(turn: Turn | None, step: Callable[[Turn], Turn | None]) -> Iterator[Turn]:
    """A turn and the ones that `step` leads to."""
    while turn is not None:
        yield turn
        turn = step(turn)


@dataclass(frozen=True, slots=True)
class Prompt:
    """What the engine is asked to continue, and where it comes from."""

    ids: list[int]
    """The whole prompt; shape ``(P,)``."""
    stored: Rope
    """The same ids, as a turn keeps them."""
    base: Turn | None
    """The turn whose prompt and completion `ids` start with; ``None`` when rendered in full."""
    reason: Reason | None
    """Why it was rendered; ``None`` when bridged."""
