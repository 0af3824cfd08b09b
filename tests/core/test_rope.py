"""Ids stored as differences are the ids, and cost what is new in them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.core.rope import Rope, rope
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
        run = rope(ids, like=run)
        assert (ids, len(ids)) == (run.ids().tolist(), run.length)
    assert [*ids, 7, 8, 9] == run.extended(token_ids([7]), token_ids([8, 9])).ids().tolist()


def test_a_slice_of_a_slice_is_found_through_all_that_lies_between():
    """Also where a slice takes a part of what its base keeps itself, and leaves out the rest."""
    middle = rope([*OLD[:400], *range(50), *OLD[600:]], like=rope(OLD))
    last = rope([*OLD[100:400], *range(40), 5, *OLD[800:]], like=middle)

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
    run = rope(new, like=rope(OLD))

    assert new == run.ids().tolist()
    assert kept == own(run)


def test_ids_are_only_found_where_ids_begin():
    """The same bytes a little later are other ids."""
    shifted = [i << 8 for i in range(1, 200)]
    mixed = token_ids()
    mixed.frombytes(b"\0" + token_ids(shifted).tobytes()[:-4] + b"\0\0\0")

    assert list(mixed) == rope(list(mixed), like=rope(shifted)).ids().tolist()


@pytest.mark.parametrize("length", [2000, 2500, 5000, 40_000])
def test_what_repeats_after_much_that_is_new_is_found(length):
    """However long the new part is; at both of its ends."""
    new = [*OLD[:100], *range(10**6, 10**6 + length), *OLD[200:], *range(50)]

    run = rope(new, like=rope(OLD))
    assert new == run.ids().tolist()
    assert length + 50 == own(run)


def test_what_is_left_out_in_many_places_is_not_kept_again():
    """As when a template strips the reasoning of two hundred answers."""
    old = list(range(48_000))
    new = [i for start in range(0, 48_000, 240) for i in old[start + 60 : start + 240]]

    run = rope(new, like=rope(old))
    assert new == run.ids().tolist()
    assert 0 == own(run)


def test_a_part_of_a_difference_is_slices_of_the_same_base():
    """It hangs no deeper than the whole."""
    run = rope([*OLD[:500], 1, 2, 3, *OLD[500:]], like=rope(OLD))
    part = run.part(400, 502)

    assert [*OLD[400:500], 1, 2] == part.ids().tolist()
    assert part.base is run.base


@given(st.one_of(FEW, MANY), st.integers(0, 200), st.integers(0, 200))
def test_a_part_is_the_slice(ids, start, end):
    """Of what repeats its base, and of what does not; it hangs no deeper than the whole."""
    start, end = sorted((min(start, len(ids)), min(end, len(ids))))
    for run in (rope(ids), rope([*ids, 7], like=rope([5, *ids])).part(0, len(ids))):
        part = run.part(start, end)
        assert (ids[start:end], end - start) == (part.ids().tolist(), part.length)
        assert part.base is run.base


@pytest.mark.parametrize("odd", [0xD800, 0xDFFF, 0xFFFF, 0x10000, 0x10FFFF, 0x110000, 2**32 - 1])
def test_every_id_can_be_stored(odd):
    """Also those that are no characters, and those that are too large to be one: these are found, or kept."""
    new = [*OLD, odd, *OLD]

    assert new == rope(new, like=rope([*OLD, odd])).ids().tolist()
    assert own(rope(new, like=rope([*OLD, odd]))) == (0 if odd <= 0x10FFFF else len(new))
