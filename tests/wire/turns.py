"""Recorded turns for the codecs to show."""

from typing import Any

from gateway.core.canon import Root
from gateway.core.turn import Turn
from gateway.core.types import Completion, FinishReason, Labels, Message, Origin, VersionSpan, float32s, token_ids


def completion(*ids: int, finish: FinishReason = FinishReason.STOP) -> Completion:
    """These ids, each more likely than the one before."""
    logprobs = [-1 / (2 + i) for i in range(len(ids))]
    return Completion(token_ids(ids), float32s(logprobs), finish, (VersionSpan("v1", 0, len(ids), "engine"),))


def turn(turn_id: str, base: Turn | None = None, *, answer: Message | None = None, **fields: Any) -> Turn:
    """A turn that adds two prompt ids to `base` and samples two; `fields` are those of a `Turn`."""
    known = base.prompt_length + len(base.completion.ids) if base else 0
    values: dict[str, Any] = {
        "root": Root("model", "kwargs", "tools", "system"),
        "new_messages": (Message("user", "hello"),),
        "prompt_delta": token_ids([1, 2]),
        "prompt_length": known + 2,
        "completion": completion(7, 8),
        "reason": None if base else "first_turn",
        "differences": frozenset(),
        "flags": (),
        "origin": Origin("http://engine-0:8000", 0),
        "labels": Labels(),
    }
    return Turn(
        id=turn_id, parent=base, base=base, message=answer or Message("assistant", "hi"), **{**values, **fields}
    )
