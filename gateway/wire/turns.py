"""Turns as JSON, as a trainer reads them."""

from dataclasses import fields

from gateway.core.fate import Fate
from gateway.core.sampling import SamplingRecord
from gateway.core.turn import Turn
from gateway.core.types import Cut, Sampling, VersionSpan

_PARAMETERS = [parameter.name for parameter in fields(Sampling)]


def turn_facts(turn: Turn) -> dict[str, object]:
    """What is fit for logs of a turn: ids of things, counts, and words that are the gateway's own or the engine's."""
    return {**_sampled(turn), **_worth(turn), "train": turn.labels.train}


def turn_object(turn: Turn) -> dict[str, object]:
    """A turn as it was recorded."""
    return {
        **_sampled(turn),
        "sampling": sampling_object(turn.sampling),
        "overridden": dict(turn.sampling.overridden),
        **_worth(turn),
        "tags": dict(turn.labels.tags),
        "train": turn.labels.train,
    }


# By hand, where `asdict` would copy each value deeply: a row has hundreds of turns.


def _sampled(turn: Turn) -> dict[str, object]:
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
        "policy_versions": [span_object(span) for span in turn.completion.spans],
        "cuts": [cut_object(cut) for cut in turn.completion.cuts],
    }


def _worth(turn: Turn) -> dict[str, object]:
    return {
        "distribution": turn.sampling.distribution,
        "logprobs_mode": turn.sampling.logprobs_mode,
        "logprobs_exact": turn.sampling.logprobs_exact,
        "differences": {
            kind: {"messages": found.messages, "tokens": found.tokens} for kind, found in turn.differences.items()
        },
        "flags": list(turn.flags),
        "thinking_retention": turn.origin.thinking_retention,
    }


def sampling_object(sampling: SamplingRecord) -> dict[str, object]:
    """The parameters in effect, by their names in vLLM."""
    used = sampling.effective
    lists = {"stop": list(used.stop), "stop_token_ids": list(sampling.stop_token_ids)}
    lists |= {"bad_words": list(used.bad_words), "allowed_token_ids": list(used.allowed_token_ids)}
    return {name: getattr(used, name) for name in _PARAMETERS} | lists


def span_object(span: VersionSpan) -> dict[str, object]:
    """Where one policy version sampled."""
    return {"version": span.version, "start": span.start, "end": span.end, "source": span.source}


def cut_object(cut: Cut) -> dict[str, object]:
    """Where a completion went on in another call."""
    return {
        "position": cut.position,
        "reason": cut.reason,
        "from_engine": cut.from_engine,
        "from_rank": cut.from_rank,
        "to_engine": cut.to_engine,
        "to_rank": cut.to_rank,
        "kv": cut.kv,
    }


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
