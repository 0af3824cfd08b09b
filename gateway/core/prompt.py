"""How the next prompt is built: extend what was sampled where that can be proven, else render in full.

A bridge must return the previous prompt and completion, id for id, followed by the new messages. Real
bridges have been seen to drop sampled ids (after an early turn close, say), so the result is checked here
and a failure counts as no bridge at all. Rendering in full is always right for the model; it only starts a
new segment, since the ids before may come out differently from those that were sampled.
"""

from typing import Protocol

from gateway.core.ledger import PendingTurn
from gateway.core.reason import Reason
from gateway.core.turn import Prompt
from gateway.core.types import FinishReason, Messages, Tools, token_ids


class MessageRenderer(Protocol):
    """What building a prompt needs of a renderer, in our own types."""

    def render(self, messages: Messages, tools: Tools) -> list[int]:
        """The whole history and the opening of the next answer."""

    def bridge(
        self, prompt_ids: list[int], sampled: list[int], new: Messages, tools: Tools, history: Messages
    ) -> list[int] | None:
        """The next prompt as an extension of the last turn; ``None`` when that cannot be proven.

        `history` ends in the answer that was sampled. What comes behind the ids of both is sound; those need not be.
        """


def build_prompt(renderer: MessageRenderer, pending: PendingTurn) -> Prompt:
    """Bridge from the parent's tokens where that is provable; otherwise render the whole history."""
    reason = pending.unbridgeable
    if reason is None and pending.parent is not None:
        parent = pending.parent
        prompt_ids, completion_ids = parent.prompt_ids().tolist(), parent.completion.ids.tolist()
        known = prompt_ids + completion_ids
        new, tools = pending.extension(), pending.request.tools
        ids = renderer.bridge(prompt_ids, completion_ids, new, tools, pending.answered())
        if ids is None:
            truncated = parent.completion.finish_reason is FinishReason.LENGTH
            reason = Reason.TRUNCATED_PARENT if truncated else Reason.BRIDGE_DECLINED
        elif len(ids) <= len(known) or ids[: len(known)] != known:
            reason = Reason.BRIDGE_UNPROVEN
        else:
            new_ids = token_ids(ids[len(known) :])
            known += new_ids
            return pending.bridged(known, new_ids, parent)
    assert reason is not None  # only a turn that has a parent may go without
    return pending.rendered(renderer.render(pending.history(), pending.request.tools), reason)
