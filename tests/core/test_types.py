"""Completions carry their evidence, or they do not exist."""

import pytest

from gateway.core.types import Completion, FinishReason, VersionSpan, float32s, token_ids
from gateway.errors import LedgerError

WHOLE = (VersionSpan("a", 0, 2), VersionSpan("b", 2, 3))


def make(ids=(1, 2, 3), logprobs=(-1.0, -0.5, 0.0), spans=WHOLE):
    return Completion(token_ids(ids), float32s(logprobs), FinishReason.STOP, spans)


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
