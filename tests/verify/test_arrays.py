"""Arrays are what their form says, or the place is named where they are not."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.verify.arrays import read_array, read_side_array
from gateway.verify.mismatch import Mismatch
from tests.verify.writer import form, packed, part_sha

IDS = st.lists(st.integers(0, 2**32 - 1), max_size=9)


@given(IDS)
def test_both_forms_are_the_same_numbers(ids):
    """Lists, and bytes in base64."""
    listed = read_array(ids, "token_ids", "<u4")

    assert ids == listed.tolist()
    assert listed == read_array(form("<u4", [len(ids)], packed("token_ids", ids)), "token_ids", "<u4")


@given(st.lists(st.lists(st.integers(0, 255), max_size=3), min_size=1, max_size=6), st.data())
def test_a_part_is_hashed_as_if_it_stood_alone(items, data):
    """Lists of any length, from any position."""
    flat = [number for item in items for number in item]
    offsets = [sum(map(len, items[:at])) for at in range(len(items) + 1)]
    held = {
        "start": 5,
        "offsets": form("<u4", [len(offsets)], packed("token_ids", offsets)),
        "array": form("|u1", [len(flat)], bytes(flat)),
    }
    first = data.draw(st.integers(0, len(items)))
    last = data.draw(st.integers(first, len(items)))
    read = read_side_array(held, "held")

    assert read is not None
    assert part_sha(held, 5 + first, 5 + last) == read.hash_of(5 + first, 5 + last)
    assert items == [read.items(position) for position in range(read.start, read.end)]


GOOD = form("<u4", [2], bytes(8))


@pytest.mark.parametrize(
    ("value", "dtype", "place"),
    [
        ([0, None], "<u4", "a[1]"),
        ([0, "1"], "<f4", "a[1]"),
        ([0, 256], "|u1", "a[1]"),
        ([0.0, 1e300], "<f4", "a[1]"),
        ([0.0, 0.1], "<f4", "a[1]"),
        ({}, "<u4", "a.dtype"),
        (GOOD, "<f4", "a.dtype"),
        (GOOD | {"shape": []}, "<u4", "a.shape"),
        (GOOD | {"shape": [-2]}, "<u4", "a.shape"),
        (GOOD | {"shape": [2, 1]}, "<u4", "a.shape"),
        (GOOD | {"shape": [3]}, "<u4", "a"),
        (GOOD | {"base64": "AAA"}, "<u4", "a"),
        (GOOD | {"base64": "ü"}, "<u4", "a"),
        (GOOD | {"base64": GOOD["base64"][:-2] + "B="}, "<u4", "a"),
        (GOOD | {"base64": GOOD["base64"] + "\n"}, "<u4", "a"),
    ],
)
def test_numbers_that_are_not_of_their_type_are_refused(value: Any, dtype, place):
    """By position, where there is one."""
    with pytest.raises(Mismatch) as caught:
        read_array(value, "a", dtype)
    assert place == caught.value.at


def with_offsets(*offsets: int) -> dict[str, Any]:
    """A side array of two numbers, divided so."""
    return {"start": 0, "array": GOOD, "offsets": form("<u4", [len(offsets)], packed("token_ids", offsets))}


@pytest.mark.parametrize(
    ("value", "place"),
    [
        ([], "a"),
        ({"array": GOOD}, "a.start"),
        ({"start": 0, "array": form("<f4", [2], bytes(8))}, "a.array.dtype"),
        ({"start": 0, "array": GOOD, "offsets": [0, 2]}, "a.offsets"),
        (with_offsets(), "a.offsets"),
        (with_offsets(1, 2), "a.offsets"),
        (with_offsets(0, 1), "a.offsets"),
        (with_offsets(0, 2, 1, 2), "a.offsets"),
        ({"start": 0, "data": "", "shape": [1], "dtype": "float32"}, "a.dtype"),
        ({"start": 0, "data": "0", "shape": [1], "dtype": "uint8"}, "a"),
        ({"start": 0, "data": "~\n", "shape": [1], "dtype": "uint8"}, "a"),
    ],
)
def test_a_side_array_that_contradicts_itself_is_refused(value, place):
    """Offsets tile the numbers; types are known."""
    with pytest.raises(Mismatch) as caught:
        read_side_array(value, "a")
    assert place == caught.value.at
