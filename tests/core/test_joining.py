"""The parts of a completion join to it, wherever it was cut."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.core.alternatives import Alternatives
from gateway.core.joining import joined, told_of
from gateway.core.side_arrays import SideArray
from gateway.core.types import Completion, FinishReason, VersionSpan, float32s, token_ids


def completion(length, *, spans=(), prompt=3, start=None, mask=True):
    """A completion of `length` ids with everything; experts from `start` on, or from the prompt's first id."""
    start = -prompt if start is None else start
    sizes = [index % 3 for index in range(length)]
    numbers = [10 * index + n for index, size in enumerate(sizes) for n in range(size)]
    offsets = token_ids([sum(sizes[:index]) for index in range(length + 1)])
    data = bytes(range(2 * (length - 1 - start)))
    beside = {
        "routed_experts": SideArray(start, "|u1", (length - 1 - start, 2), data),
        "sampling_mask": SideArray(0, "<u4", (len(numbers),), token_ids(numbers).tobytes(), offsets),
    }
    if not mask:
        del beside["sampling_mask"]
    ids = range(100, 100 + length)
    likely = Alternatives(2, token_ids(range(2 * length)), float32s([-1.0 - n for n in range(2 * length)]))
    return Completion(
        token_ids(ids),
        float32s([-0.5 - n for n in range(length)]),
        FinishReason.STOP,
        spans or (VersionSpan("a", 0, length),),
        likely,
        beside,
        overshoot_tokens=2,
    )


def part(whole, start, end, told):
    """The ids ``[start, end)`` of a completion as a call of their own; it tells of the experts from `told` on."""
    last = end == len(whole.ids)
    spans = [
        VersionSpan(span.version, max(span.start, start) - start, min(span.end, end) - start, span.source)
        for span in whole.spans
        if span.start < end and span.end > start
    ]
    beside = {"sampling_mask": whole.side_arrays["sampling_mask"].part(start, end).moved(0)}
    if told is not None:
        beside["routed_experts"] = whole.side_arrays["routed_experts"].part(told, end - 1).moved(told - start)
    return Completion(
        whole.ids[start:end],
        whole.logprobs[start:end],
        whole.finish_reason if last else FinishReason.ABORT,
        tuple(spans),
        whole.alternatives.part(start, end),
        beside,
        overshoot_tokens=whole.overshoot_tokens if last else 0,
    )


@st.composite
def cut_somewhere(draw):
    """A completion, and its parts: the last tells of the experts, others may, each from where nobody has."""
    length = draw(st.integers(1, 9))
    marks = sorted(draw(st.sets(st.integers(1, length), max_size=3)) | {length})
    names, begin, spans = "abab", 0, []
    for name, mark in zip(names, marks, strict=False):
        spans.append(VersionSpan(name, begin, mark))
        begin = mark
    whole = completion(length, spans=tuple(spans))
    places = [0, *sorted(draw(st.sets(st.integers(1, length), max_size=4)) - {length}), length]
    parts, known = [], -3
    for start, end in pairwise(places):
        tells = end == length or draw(st.booleans())
        parts.append(part(whole, start, end, known if tells else None))
        known = told_of(parts, -3)
        assert known == (end - 1 if tells else known)
    return whole, parts


@given(cut_somewhere())
def test_the_parts_of_a_completion_join_to_it(cut):
    """Ids, logprobs, alternatives, side arrays, versions, and what was sampled too much."""
    whole, parts = cut
    assert joined(parts) == whole


@pytest.mark.parametrize(
    "change",
    [
        lambda first, second: (first, completion(2, start=1 - 1, mask=False)),
        lambda first, second: (completion(2, mask=False), second),
        lambda first, second: (first, completion(2, start=0)),
    ],
)
def test_an_array_that_does_not_tell_of_all_positions_is_none(change):
    """Nor is one that is missing at the beginning, at the end, or in between."""
    whole = completion(4)
    first, second = part(whole, 0, 2, -3), part(whole, 2, 4, 1)
    told = set(joined([first, second]).side_arrays)
    assert told == {"routed_experts", "sampling_mask"}
    assert set(joined(change(first, second)).side_arrays) < told


def test_arrays_of_different_shapes_are_not_joined():
    """Two engines need not route alike."""
    first = completion(2)
    wide = SideArray(-1, "|u1", (2, 3), bytes(6))
    second = completion(2)
    second.side_arrays["routed_experts"] = wide
    assert "routed_experts" not in joined([first, second]).side_arrays


def test_alternatives_of_some_ids_are_none():
    """A row is due for each."""
    whole = completion(4)
    first, bare = part(whole, 0, 2, -3), part(whole, 2, 4, 1)
    object.__setattr__(bare, "alternatives", None)
    assert joined([first, bare]).alternatives is None


def test_what_was_told_before_in_the_prompt_stays_known():
    """And what leaves a gap tells of nothing that can be used."""
    assert told_of([], -2) == -2
    assert told_of([completion(3, start=-1)], -2) == -2
    assert told_of([completion(3, start=-3)], -2) == 2
