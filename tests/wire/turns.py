"""Recorded turns for the codecs to show."""

from typing import Any

from gateway.core.canon import Root
from gateway.core.reason import Reason
from gateway.core.rope import rope
from gateway.core.turn import Turn, answer_node
from gateway.core.types import Completion, FinishReason, Labels, Message, Origin, VersionSpan, float32s, token_ids
from tests.core.sampled import HOW


def completion(*ids: int, finish: FinishReason = FinishReason.STOP) -> Completion:
    """These ids, each more likely than the one before."""
    logprobs = [-1 / (2 + i) for i in range(len(ids))]
    return Completion(token_ids(ids), float32s(logprobs), finish, (VersionSpan("v1", 0, len(ids), "engine"),))


def text_of(token_id: int) -> tuple[str, bytes]:
    """What an id of these turns says."""
    return f"⟨{token_id}⟩", f"⟨{token_id}⟩".encode()


def turn(turn_id: str, base: Turn | None = None, *, answer: Message | None = None, **fields: Any) -> Turn:
    """A turn that adds two prompt ids to `base` and samples two; `fields` are those of a `Turn`."""
    values: dict[str, Any] = {
        "root": Root("model", "kwargs", "tools", "system", "sent"),
        "prompt": base.sequence.extended(token_ids([1, 2])) if base else rope([1, 2]),
        "completion": completion(7, 8),
        "reason": None if base else Reason.FIRST_TURN,
        "differences": {},
        "flags": (),
        **HOW,
        "origin": Origin("http://engine-0:8000", 0),
        "labels": Labels(),
    }
    said = answer or Message("assistant", "hi")
    return Turn(id=turn_id, parent=base, base=base, message=said, node=answer_node(), **{**values, **fields})
