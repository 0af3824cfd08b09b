"""What an engine says beside ids and logprobs keeps to the positions that it speaks of."""

from array import array

import pytest

from gateway.core.side_arrays import SideArray, check_lengths, head, own_positions, stitched
from gateway.errors import LedgerError


def routed(start, *items):
    """Experts of one layer, two of them, for positions from `start` on; the first of the two is the item given."""
    return SideArray(start, "<u2", (len(items), 1, 2), b"".join(bytes([item, 0, 7, 0]) for item in items))


def mask(start, *lists):
    """Lists of ids below 256."""
    offsets = array("I", [sum(map(len, lists[:count])) for count in range(len(lists) + 1)])
    return SideArray(start, "|u1", (offsets[-1],), b"".join(map(bytes, lists)), offsets)


def test_its_bytes_are_what_dtype_and_shape_say():
    """Three positions of two numbers of two bytes."""
    held = routed(-1, 4, 5, 6)

    assert (len(held), held.start, held.end) == (3, -1, 2)


@pytest.mark.parametrize(
    ("dtype", "shape", "data"),
    [
        ("<f4", (1,), bytes(4)),
        (">u2", (1,), bytes(2)),
        ("|u1", (), b"\0"),
        ("|u1", (2, 2), bytes(3)),
        ("<i4", (2,), bytes(2)),
        ("|u1", (-1, -1), b"\0"),
    ],
)
def test_bytes_that_are_something_else_are_refused(dtype, shape, data):
    """An unknown type, no shape, too few or too many bytes."""
    with pytest.raises(LedgerError):
        SideArray(0, dtype, shape, data)


@pytest.mark.parametrize("offsets", [[], [0], [1, 3], [0, 2], [0, 2, 1, 3], [0, 4]])
def test_offsets_that_do_not_tile_the_numbers_are_refused(offsets):
    """They begin at 0, never descend and end at the last number."""
    with pytest.raises(LedgerError, match="offsets"):
        SideArray(0, "|u1", (3,), b"abc", array("I", offsets))


def test_offsets_into_rows_are_refused():
    """Lists hold numbers, not rows of them."""
    with pytest.raises(LedgerError, match="offsets"):
        SideArray(0, "|u1", (1, 2), b"ab", array("I", [0, 1]))


def test_a_part_speaks_of_the_same_positions():
    """Items of one shape are cut at positions, lists at their offsets."""
    assert routed(-2, 4, 5, 6).part(-1, 1) == routed(-1, 5, 6)
    assert mask(0, b"ab", b"", b"cde").part(1, 3) == mask(1, b"", b"cde")
    assert mask(0, b"ab").part(1, 1) == mask(1)


@pytest.mark.parametrize(("start", "end"), [(-3, 0), (0, 2), (1, 0)])
def test_there_is_no_part_beyond_what_it_speaks_of(start, end):
    """Nothing is made up."""
    with pytest.raises(LedgerError):
        routed(-2, 4, 5, 6).part(start, end)


@pytest.mark.parametrize(
    "arrays",
    [
        {"routed_experts": routed(-2, 1, 2, 3, 4)},
        {"routed_experts": routed(0, 1, 2)},
        {"sampling_mask": mask(0, b"a", b"b", b"c")},
        {"sampling_mask": mask(0, b"a", b"b", b"c"), "routed_experts": routed(-1, 1, 2, 3)},
        {},
    ],
)
def test_experts_end_before_the_last_sampled_id_and_masks_with_it(arrays):
    """The model never read the last id."""
    check_lengths(arrays, 3)


@pytest.mark.parametrize(
    "arrays",
    [
        {"routed_experts": routed(0, 1, 2, 3)},
        {"routed_experts": routed(-1, 1, 2)},
        {"routed_experts": routed(1, 1)},
        {"routed_experts": mask(0, b"a", b"b")},
        {"sampling_mask": mask(0, b"a", b"b")},
        {"sampling_mask": mask(-1, b"z", b"a", b"b", b"c")},
        {"sampling_mask": routed(0, 1, 2, 3)},
        {"hidden_states": routed(0, 1, 2)},
    ],
)
def test_arrays_of_other_positions_are_refused(arrays):
    """Nor is an array taken whose length rule is not known."""
    with pytest.raises(LedgerError):
        check_lengths(arrays, 3)


def test_the_head_of_a_completion_has_the_arrays_of_a_shorter_one():
    """What was sampled beyond is discarded there, too."""
    whole = {"routed_experts": routed(-2, 1, 2, 3, 4), "sampling_mask": mask(0, b"a", b"bc", b"d")}
    expected = {"routed_experts": routed(-2, 1, 2), "sampling_mask": mask(0, b"a")}

    assert head(whole, 1) == expected
    check_lengths(expected, 1)


PLACES = ((3, 5, routed(-3, 1, 2, 3, 4)), (7, 10, routed(-3, 5, 6, 7, 8, 9)))
"""Ids 0 to 2 are the first prompt, 3 and 4 sampled, 5 and 6 the next prompt, 7 to 9 sampled."""


def test_experts_of_a_row_are_those_of_its_turns_end_to_end():
    """A turn adds the last id of the one before, its new prompt, and all that it sampled but the last."""
    assert stitched("routed_experts", PLACES) == routed(0, 1, 2, 3, 4, 5, 6, 7, 8, 9)
    assert own_positions("routed_experts", 3, 5, 0) == (0, 4)
    assert own_positions("routed_experts", 7, 10, 5) == (4, 9)


def test_what_was_said_when_a_turn_was_sampled_is_not_replaced_by_a_later_call():
    """An engine may say more than it was asked for; rows that share a turn must agree on it."""
    whole = routed(-7, 90, 91, 92, 93, 5, 6, 7, 8, 9)

    assert stitched("routed_experts", (PLACES[0], (7, 10, whole))) == routed(0, 1, 2, 3, 4, 5, 6, 7, 8, 9)


def test_masks_of_a_row_are_empty_where_nothing_was_sampled():
    """From the first sampled id to the last."""
    places = ((3, 5, mask(0, b"ab", b"c")), (7, 8, mask(0, b"de")))

    assert stitched("sampling_mask", places) == mask(3, b"ab", b"c", b"", b"", b"de")
    assert own_positions("sampling_mask", 7, 8, 5) == (7, 8)


@pytest.mark.parametrize(
    "second",
    [
        None,
        routed(-2, 6, 7, 8, 9),
        SideArray(-3, "<u2", (5, 1, 1), bytes(10)),
        SideArray(-3, "|u1", (5, 1, 2), bytes(10)),
    ],
)
def test_a_row_has_no_experts_where_those_of_a_turn_are_missing_or_of_another_kind(second):
    """Be there none, a gap before them, or another model's."""
    assert stitched("routed_experts", (PLACES[0], (7, 10, second))) is None


def test_a_row_without_turns_has_no_side_array():
    """Nothing is not an empty array."""
    assert stitched("routed_experts", ()) is None
