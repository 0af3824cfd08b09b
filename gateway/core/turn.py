"""One sampled completion, the prompt that led to it, and its place among the messages of its session."""

from array import array
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from gateway.core.canon import Difference, Root
from gateway.core.reason import Reason
from gateway.core.rope import Rope
from gateway.core.sampling import SamplingRecord
from gateway.core.types import Completion, EndedBy, FinishReason, Flag, Labels, Message, Origin, Status, token_ids


@dataclass(frozen=True, slots=True)
class Replay:
    """An answer of ours as it was given, or as it last came back, and how it differed."""

    said: object
    """Its identity."""
    differences: tuple[str, ...] = ()


class Node:
    """A point in the histories of a session: after a run of messages that clients said, or after an answer of ours.

    Mutable: `Tree` writes it.
    """

    __slots__ = ("answers", "children", "replay", "turn", "way")

    def __init__(self, parent: "Node | None", run: "array[int] | Rope", turn: "Turn | None") -> None:
        self.way = (parent, run)
        """The point before, and what leads on from it: one value, since exports read it in threads of their own."""
        self.turn = turn
        """The turn that gave the answer, or the latest that brought the messages; ``None`` at the beginning."""
        self.children: dict[int, Node] = {}
        """Where clients went on, by the number of their next message."""
        self.answers: list[Turn] = []
        """What was sampled from here and is complete, whatever stands above the messages."""
        self.replay: Replay | None = None
        """How this answer was given, or last came back and was taken for it; ``None`` where nobody answered."""

    @property
    def parent(self) -> "Node | None":
        """The point before; ``None`` at the beginning, and for an answer that is not committed."""
        return self.way[0]

    @property
    def run(self) -> "array[int] | Rope":
        """The numbers of the messages since the parent; empty after an answer, and at the beginning."""
        return self.way[1]

    def numbers(self) -> "array[int]":
        """The numbers of the messages since the parent."""
        return numbers_of(self.run)

    def is_below(self, above: "Node") -> bool:
        """Whether a history that leads here leads through `above`."""
        node: Node | None = self
        while node is not None and node is not above:
            node = node.parent
        return node is above


def numbers_of(run: "array[int] | Rope") -> "array[int]":
    """The numbers of a run's messages."""
    return run.ids() if isinstance(run, Rope) else run


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Turn:
    """One sampled completion, stored as what it added to what was there before."""

    id: str
    root: Root
    parent: "Turn | None"
    """The turn that the agent's history continues; ``None`` starts a branch."""
    base: "Turn | None"
    """The turn whose ids this prompt starts with: the parent when bridged, ``None`` when rendered."""
    prompt: Rope
    """The whole prompt that the engine saw."""
    completion: Completion
    message: Message
    """The answer as the client saw it."""
    reason: Reason | None
    """Why the prompt was rendered; ``None`` when bridged."""
    differences: Mapping[str, Difference]
    """How the replayed history differed from the record, by kind."""
    flags: tuple[Flag, ...]
    """What was odd about the answer, such as a malformed tool call."""
    sampling: SamplingRecord
    """How it was sampled, and what its logprobs are worth."""
    ended_by: EndedBy
    origin: Origin
    labels: Labels
    node: Node
    """The point after the answer; it gets its parent when the turn is committed."""

    def __repr__(self) -> str:
        return f"<Turn {self.id} {self.how} {self.status}>"  # what was said and sampled is not for logs

    @property
    def status(self) -> Status:
        """Whether the engine finished it; an aborted turn is kept, but nothing extends it."""
        return "aborted" if self.completion.finish_reason is FinishReason.ABORT else "complete"

    @property
    def how(self) -> Literal["bridged", "rendered"]:
        """Whether the prompt extends the base's ids or was rendered in full."""
        return "rendered" if self.base is None else "bridged"

    @property
    def asked(self) -> Node:
        """The point that it answers; for a committed turn."""
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

    @property
    def reused_tokens(self) -> int:
        """How many of the prompt's ids are those of its base, prompt and completion."""
        return self.base.prompt.length + len(self.base.completion.ids) if self.base else 0

    @property
    def added_tokens(self) -> int:
        """How many ids were rendered or sampled for it."""
        return self.prompt.length - self.reused_tokens + len(self.completion.ids)

    def prompt_ids(self) -> "array[int]":
        """The whole prompt; shape ``(P,)``. Costs its length."""
        return self.prompt.ids()

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


def answer_node() -> Node:
    """A point after an answer that is not committed yet."""
    return Node(None, token_ids(), None)


@dataclass(frozen=True, slots=True, repr=False)
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
