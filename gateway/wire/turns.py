"""Turns as JSON, as a trainer reads them."""

from dataclasses import asdict

from gateway.core.fate import Fate
from gateway.core.sampling import SamplingRecord
from gateway.core.turn import Turn


def turn_object(turn: Turn) -> dict[str, object]:
    """A turn as it was recorded."""
    return {
        "turn_id": turn.id,
        "parent_id": turn.parent.id if turn.parent else None,
        "status": turn.status,
        "how": turn.how,
        "reason": turn.reason,
        "prompt_tokens": turn.prompt_length,
        "completion_tokens": len(turn.completion.ids),
        "overshoot_tokens": turn.completion.overshoot_tokens,
        "finish_reason": turn.completion.finish_reason.value,
        "ended_by": turn.ended_by,
        "engine": turn.origin.engine,
        "rank": turn.origin.rank,
        "policy_versions": [asdict(span) for span in turn.completion.spans],
        "sampling": sampling_object(turn.sampling),
        "overridden": dict(turn.sampling.overridden),
        "distribution": turn.sampling.distribution,
        "logprobs_mode": turn.sampling.logprobs_mode,
        "logprobs_exact": turn.sampling.logprobs_exact,
        "differences": {kind: asdict(found) for kind, found in turn.differences.items()},
        "flags": list(turn.flags),
        "thinking_retention": turn.origin.thinking_retention,
        "tags": dict(turn.labels.tags),
        "train": turn.labels.train,
    }


def sampling_object(sampling: SamplingRecord) -> dict[str, object]:
    """The parameters in effect, by their names in vLLM."""
    lists = {"stop": list(sampling.effective.stop), "stop_token_ids": list(sampling.stop_token_ids)}
    return asdict(sampling.effective) | lists


def ids_of(turn: Turn) -> dict[str, object]:
    """What an engine was given for a turn and what it answered; costs the length of the prompt."""
    completion = turn.completion
    return {
        "prompt_ids": turn.prompt_ids().tolist(),
        "completion_ids": completion.ids.tolist(),
        "logprobs": completion.logprobs.tolist(),
    }


def told_turn(turn: Turn, fate: Fate) -> dict[str, object]:
    """A turn as ``GET /sessions/{sid}/turns`` shows it: with what became of it since."""
    return turn_object(turn) | {"delivered": fate.delivered, "dropped_by_harness": fate.dropped}
