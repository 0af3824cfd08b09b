"""The turns of an agent in the order of its thought: what each was meant to go on from, and which of them break off."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from gateway.core.canon import Policy
from gateway.core.reason import Reason
from gateway.core.turn import Turn
from gateway.core.types import Messages, TurnRequest
from gateway.doctor.divergence import Divergence, divergences, shared

LINEAGE = {Reason.MODEL_CHANGED, Reason.TEMPLATE_KWARGS_CHANGED, Reason.TOOLS_CHANGED, Reason.SYSTEM_CHANGED}
"""What stands above the messages is another: the history itself may be the same."""
_OTHER_HISTORY = LINEAGE | {Reason.HISTORY_EDITED, Reason.HISTORY_SHORTENED, Reason.FOREIGN_ASSISTANT}
_RENDERERS = {Reason.TRUNCATED_PARENT, Reason.BRIDGE_DECLINED, Reason.BRIDGE_UNPROVEN}
"""The history is as it was: what breaks the prefix is the renderer, which cannot go on from such an answer."""
_MOST_ASKED = 64
"""How many of the latest turns are asked whether a history is theirs: each costs the length of both."""


@dataclass(frozen=True, eq=False)
class Step:
    """One turn of an agent."""

    number: int
    """In the order in which they were recorded, from 1 on."""
    request: TurnRequest
    turn: Turn
    before: "Step | None"
    """What it was meant to go on from; ``None`` where it begins anew."""
    policy: Policy = "canonical"

    @property
    def said(self) -> Messages:
        """All that was said when it was over."""
        return *self.request.messages, self.turn.message

    @property
    def breaks(self) -> bool:
        """Whether it was meant to go on, and its prompt does not extend what was sampled."""
        return self.before is not None and self.turn.reason is not None

    @property
    def by(self) -> Literal["harness", "renderer"]:
        """Who breaks it, where it breaks."""
        return "renderer" if self.turn.reason in _RENDERERS else "harness"

    @property
    def depth(self) -> int:
        """How many turns there are up to this one."""
        depth, step = 0, self
        while step.before is not None:
            depth, step = depth + 1, step.before
        return depth + 1

    @cached_property
    def differences(self) -> Sequence[Divergence]:
        """How its history differs from what was said before."""
        return divergences(self.before.said, self.request.messages, self.policy) if self.before else ()

    @property
    def reused_tokens(self) -> int:
        """Ids of its prompt that were taken over."""
        return self.turn.base.sequence.length if self.turn.base else 0

    @cached_property
    def cost(self) -> tuple[int, int]:
        """Prompt ids that a bridge would have taken over and that were rendered anew; of these, those that an engine
        has to read again, since they do not begin with what it has read.
        """
        if self.before is None or not self.breaks:
            return 0, 0
        known, prompt = self.before.turn.sequence.ids(), self.turn.prompt_ids()
        anew = min(len(known), len(prompt))
        alike = next((at for at in range(anew) if known[at] != prompt[at]), anew)
        return anew, anew - alike


@dataclass(frozen=True, slots=True, eq=False)
class Line:
    """Turns beside the main line, each of which goes on from the one before."""

    steps: Sequence[Step]

    @property
    def first(self) -> Step:
        """Where it begins."""
        return self.steps[0]


def steps_of(taken: Iterable[tuple[TurnRequest, Turn]], policy: Policy) -> list[Step]:
    """The steps of complete turns, given in the order in which they were recorded."""
    steps: list[Step] = []
    by_turn: dict[Turn, Step] = {}
    for number, (request, turn) in enumerate(taken, 1):
        step = Step(number, request, turn, _before(request, turn, steps, by_turn), policy)
        steps.append(step)
        by_turn[turn] = step
    return steps


def _before(request: TurnRequest, turn: Turn, steps: Sequence[Step], by_turn: Mapping[Turn, Step]) -> Step | None:
    if turn.reason is Reason.FIRST_TURN:
        return None
    if turn.reason not in _OTHER_HISTORY:
        return by_turn.get(turn.parent) if turn.parent else None
    found, most = None, 0
    for step in reversed(steps[-_MOST_ASKED:]):
        back = shared(step.said, request.messages)
        ours = any(step.said[at].role == "assistant" for at in back)
        if len(back) > most and (ours or turn.reason is not Reason.FOREIGN_ASSISTANT):
            found, most = step, len(back)
    return found


def main_line(steps: Sequence[Step]) -> list[Step]:
    """The longest way from a beginning to an end; the latest of several."""
    step = max(steps, key=lambda step: (step.depth, step.number), default=None)
    found: list[Step] = []
    while step is not None:
        found.append(step)
        step = step.before
    return found[::-1]


def lines_beside(steps: Sequence[Step], main: Sequence[Step]) -> list[Line]:
    """The others, in the order in which they begin."""
    inside, lines = set(main), list[list[Step]]()
    ends: dict[Step, list[Step]] = {}
    for step in steps:
        if step in inside:
            continue
        line = ends.pop(step.before, None) if step.before else None
        if line is None:
            line = []
            lines.append(line)
        line.append(step)
        ends[step] = line
    return [Line(line) for line in lines]
