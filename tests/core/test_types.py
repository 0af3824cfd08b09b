"""Completions carry their evidence, or they do not exist."""

from dataclasses import replace

import pytest

from gateway.core.alternatives import Alternatives
from gateway.core.side_arrays import SideArray
from gateway.core.types import (
    Completion,
    Cut,
    Delta,
    FinishReason,
    Message,
    ToolCall,
    VersionSpan,
    deltas,
    float32s,
    token_ids,
)
from gateway.errors import LedgerError

WHOLE = (VersionSpan("a", 0, 2), VersionSpan("b", 2, 3))


def make(ids=(1, 2, 3), logprobs=(-1.0, -0.5, 0.0), spans=WHOLE, alternatives=None):
    return Completion(token_ids(ids), float32s(logprobs), FinishReason.STOP, spans, alternatives)


def beside(width=2, ids=(1, 9, 2, 8, 3, 7), logprobs=(-1.0, -0.25, -0.5, -2.0, 0.0, -9999.0)):
    return Alternatives(width, token_ids(ids), float32s(logprobs))


def test_a_completion_with_evidence_for_each_id_is_accepted():
    """Ids, logprobs at or below zero, and spans that tile."""
    assert make().spans == WHOLE


@pytest.mark.parametrize(
    ("ids", "logprobs"),
    [
        ((), ()),
        ((1, 2, 3), (-1.0, -0.5)),
        ((1, 2), (-1.0, -0.5, -0.5)),
        ((1, 2, 3), (-1.0, 0.25, -0.5)),
        ((1, 2, 3), (-1.0, float("nan"), -0.5)),
        ((1, 2, 3), (-1.0, float("-inf"), -0.5)),
    ],
)
def test_ids_without_a_finite_logprob_at_or_below_zero_are_refused(ids, logprobs):
    """Nothing without evidence can be recorded."""
    with pytest.raises(LedgerError):
        make(ids, logprobs, (VersionSpan("a", 0, len(ids)),))


@pytest.mark.parametrize(
    "spans",
    [
        (),
        (VersionSpan("a", 0, 2),),
        (VersionSpan("a", 0, 4),),
        (VersionSpan("a", 1, 3),),
        (VersionSpan("a", 0, 2), VersionSpan("b", 1, 3)),
        (VersionSpan("a", 0, 1), VersionSpan("b", 2, 3)),
        (VersionSpan("a", 0, 0), VersionSpan("b", 0, 3)),
        (VersionSpan("a", 0, 3), VersionSpan("b", 3, 3)),
        (VersionSpan("a", 0, 3), VersionSpan("b", 3, 2)),
    ],
)
def test_spans_that_do_not_tile_the_ids_are_refused(spans):
    """No gap, no overlap, no empty span, nothing short or long."""
    with pytest.raises(LedgerError, match="version spans"):
        make(spans=spans)


@pytest.mark.parametrize(("length", "spans"), [(3, WHOLE), (2, WHOLE[:1]), (1, (VersionSpan("a", 0, 1),))])
def test_the_head_of_a_completion_keeps_evidence_and_spans(length, spans):
    """Cutting overshoot leaves a completion that still proves itself."""
    head = make().head(length, FinishReason.ABORT)

    assert list(head.ids) == [1, 2, 3][:length]
    assert list(head.logprobs) == [-1.0, -0.5, 0.0][:length]
    assert spans == head.spans
    assert head.finish_reason is FinishReason.ABORT
    assert (3 - length, 3 - 1) == (head.overshoot_tokens, head.head(1, FinishReason.ABORT).overshoot_tokens)


@pytest.mark.parametrize("places", [(0,), (3,), (4,), (2, 2), (2, 1)])
def test_a_completion_is_cut_within_its_ids_and_at_each_place_once(places):
    """In order. What is left of it has the cuts that are left."""
    cuts = [Cut(at, "lost", "http://a", 0, "http://b", 0, "kept") for at in (1, 2)]
    whole = replace(make(), cuts=tuple(cuts))
    assert [whole.head(length, FinishReason.STOP).cuts for length in (1, 2, 3)] == [(), (cuts[0],), tuple(cuts)]
    with pytest.raises(LedgerError, match="cuts"):
        replace(make(), cuts=tuple(replace(cuts[0], position=at) for at in places))


# Alternatives


@pytest.mark.parametrize("alternatives", [beside(1), beside(3), beside(2, (1, 9), (-1.0, -2.0)), beside(1, (), ())])
def test_a_completion_with_alternatives_has_a_row_of_them_for_each_id(alternatives):
    """Neither fewer nor more."""
    assert make(alternatives=beside()).alternatives == beside()
    with pytest.raises(LedgerError, match="alternatives"):
        make(alternatives=alternatives)


def test_the_head_of_a_completion_keeps_the_alternatives_of_its_ids():
    """And those only."""
    head = make(alternatives=beside()).head(2, FinishReason.STOP)

    assert head.alternatives == beside(2, (1, 9, 2, 8), (-1.0, -0.25, -0.5, -2.0))
    assert make().head(2, FinishReason.STOP).alternatives is None


@pytest.mark.parametrize("alternatives", [beside(), None])
def test_a_part_of_a_completions_evidence_is_that_of_some_ids(alternatives):
    """What a client is shown while the rest is still sampled."""
    part = make(alternatives=alternatives).evidence.part(1, 3)

    assert (list(part.ids), list(part.logprobs)) == ([2, 3], [-0.5, 0.0])
    assert part.alternatives == (beside(2, (2, 8, 3, 7), (-0.5, -2.0, 0.0, -9999.0)) if alternatives else None)


# Deltas


def test_a_message_is_told_in_the_order_in_which_a_model_says_it():
    """Reasoning, content, calls; what it has not is not told."""
    calls = (ToolCall("a", "look", "{}"), ToolCall("b", "go", ""))

    assert deltas(Message("assistant", "hi", reasoning="so", tool_calls=calls)) == [
        Delta(reasoning="so"),
        Delta(content="hi"),
        *(Delta(call=call) for call in calls),
    ]
    assert deltas(Message("assistant")) == []


def test_side_arrays_must_speak_of_the_completion_and_are_cut_with_it():
    """Nine bytes of experts end before the last of three ids; one less leaves no completion."""
    experts = {"routed_experts": SideArray(-1, "|u1", (3, 3), bytes(range(9)))}
    whole = Completion(token_ids((1, 2, 3)), float32s((-1.0, -0.5, 0.0)), FinishReason.STOP, WHOLE, None, experts)

    assert whole.head(1, FinishReason.STOP).side_arrays["routed_experts"].data == bytes(range(3))
    with pytest.raises(LedgerError, match="routed_experts"):
        Completion(token_ids((1, 2)), float32s((-1.0, -0.5)), FinishReason.STOP, WHOLE[:1], None, experts)
