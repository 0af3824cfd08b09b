"""One sampled completion, and the prompt that led to it."""

from array import array
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

from gateway.core.canon import Root
from gateway.core.types import Completion, FinishReason, Labels, Message, Origin, Status, token_ids


@dataclass(frozen=True, slots=True, eq=False)
class Turn:
    """One sampled completion, stored as what it added to the turn before."""

    id: str
    root: Root
    parent: "Turn | None"
    """The turn that the agent's history continues; ``None`` starts a branch."""
    base: "Turn | None"
    """The turn whose ids this prompt starts with: the parent when bridged, ``None`` when rendered."""
    new_messages: tuple[Message, ...]
    """The messages since the parent's answer; from the beginning where there is no parent."""
    prompt_delta: "array[int]"
    """Prompt ids after the base's prompt and completion."""
    prompt_length: int
    """Length ``P`` of the whole prompt."""
    completion: Completion
    message: Message
    """The answer as the client saw it."""
    reason: str | None
    """Why the prompt was rendered; ``None`` when bridged."""
    differences: frozenset[str]
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

    def segment(self) -> "list[Turn]":
        """The turns from the last full render down to this one; each prompt extends the one before."""
        return list(_upwards(self, lambda turn: turn.base))[::-1]

    def prompt_ids(self) -> "array[int]":
        """The whole prompt; shape ``(P,)``. Costs its length."""
        *before, last = self.segment()
        ids = token_ids()
        for turn in before:
            ids += turn.prompt_delta + turn.completion.ids
        return ids + last.prompt_delta

    def branch(self) -> "list[Turn]":
        """The turns from the branch's first to this one."""
        return list(_upwards(self, lambda turn: turn.parent))[::-1]


def _upwards(turn: Turn, step: Callable[[Turn], Turn | None]) -> Iterator[Turn]:
    node: Turn | None = turn
    while node is not None:
        yield node
        node = step(node)


@dataclass(frozen=True, slots=True)
class Prompt:
    """What the engine is asked to continue, and where it comes from."""

    ids: list[int]
    """The whole prompt; shape ``(P,)``."""
    base: Turn | None
    """The turn whose prompt and completion `ids` start with; ``None`` when rendered in full."""
    reason: str | None
    """Why it was rendered; ``None`` when bridged."""
