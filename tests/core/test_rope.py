"""Ids stored as differences are the ids, and cost what is new in them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.core.rope import Rope, difference, rope
from gateway.core.types import token_ids

FEW = st.lists(st.integers(0, 2), max_size=200)
MANY = st.lists(st.integers(0, 2**32 - 1), max_size=200)


def own(run: Rope) -> int:
    """How many ids it keeps itself."""
    return sum(len(piece) for piece in run.pieces if not isinstance(piece, tuple))


@given(st.one_of(FEW, MANY), st.lists(st.tuples(st.integers(0, 300), st.integers(0, 90), FEW), max_size=5))
def test_a_difference_is_the_ids_whatever_was_cut_and_put_in(ids, edits):
    """Through a chain of differences, and after something was added."""
    run = rope(ids)
    for start, cut, put in edits:
        ids = [*ids[:start], *put, *ids[start + cut :]]
        run = difference(run, ids)
        assert (ids, len(ids)) == (run.ids().tolist(), run.length)
    assert [*ids, 7, 8, 9] == run.extended(token_ids([7]), token_ids([8, 9])).ids().tolist()


def test_a_slice_of_a_slice_is_found_through_all_that_lies_between():
    """Also where a slice takes a part of what its base keeps itself, and leaves out the rest."""
    middle = difference(rope(OLD), [*OLD[:400], *range(50), *OLD[600:]])
    last = difference(middle, [*OLD[100:400], *range(40), 5, *OLD[800:]])

    assert [*OLD[100:400], *range(40), 5, *OLD[800:]] == last.ids().tolist()
    assert [*OLD[100:400], *range(40), 5, *OLD[800:], 9] == last.extended(token_ids([9])).ids().tolist()
    assert own(last) <= 41


OLD = list(range(1000, 2000))


@pytest.mark.parametrize(
    ("new", "kept"),
    [
        (OLD, 0),
        ([*OLD, 1, 2, 3], 3),
        (OLD[:-10], 0),
        ([1, *OLD], 1),
        ([1, *OLD[1:]], 1),
        ([*OLD[:500], 1, 2, *OLD[500:]], 2),
        ([*OLD[:500], *OLD[600:]], 0),
        ([*range(70), *OLD[5:], *range(9)], 79),
        ([*OLD[900:], *OLD[:900]], 0),
        ([*range(900)], 900),
        ([1000, *range(900)], 900),
        ([], 0),
    ],
)
def test_what_was_there_before_is_not_kept_again(new, kept):
    """At the beginning, at the end, between, in another order; what is all new repeats nothing."""
    run = difference(rope(OLD), new)

    assert new == run.ids().tolist()
    assert kept == own(run)


def test_ids_are_only_found_where_ids_begin():
    """The same bytes a little later are other ids."""
    shifted = [i << 8 for i in range(1, 200)]
    mixed = token_ids()
    mixed.frombytes(b"\0" + token_ids(shifted).tobytes()[:-4] + b"\0\0\0")

    assert list(mixed) == difference(rope(shifted), list(mixed)).ids().tolist()


def test_looking_for_what_repeats_ends():
    """Ids that are all new cost no more than a bounded number of searches, and what repeats after that is kept."""
    new = [*range(10**6, 10**6 + 64 * 32), *OLD]

    assert new == difference(rope(OLD), new).ids().tolist()
    assert len(new) == own(difference(rope(OLD), new))
