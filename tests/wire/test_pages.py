"""What a trainer reads: pages and lines."""

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.wire.pages import Unwritable, encode_lines, encode_page


def read(pieces):
    """What a client makes of a page."""
    return orjson.loads(b"".join(pieces))


@given(st.lists(st.integers(0, 99), max_size=20))
def test_a_page_holds_its_items_in_order(items):
    """And the cursor of the page that follows, and what else is said."""
    listed = [{"item": item} for item in items]
    assert read(encode_page(listed, "1.2")) == {"data": listed, "next": "1.2"}
    assert list(read(encode_page(listed, None, {"excluded": [1]})).items()) == [
        ("data", listed),
        ("next", None),
        ("excluded", [1]),
    ]


def test_a_small_page_comes_in_one_piece():
    """However many items it has."""
    for items in ([], [{"item": 1}], [{"item": 1}, {"item": 2}]):
        (piece,) = encode_page(items, None)
        assert orjson.loads(piece) == {"data": items, "next": None}


def test_a_page_of_large_items_comes_in_pieces():
    """So that no more than one of them is held at a time; together they are the page."""
    items = [{"item": name * 70_000} for name in "123"]
    waiting = iter(items)
    pieces = encode_page(waiting, None)

    assert next(pieces)
    assert next(waiting) == items[1]
    assert len(list(pieces)) == 2
    assert read(encode_page(items, None))["data"] == items


def test_lines_come_in_pieces_of_some_size():
    """A small one waits for others, a large one for nobody."""
    small, large = {"item": "1\n2"}, {"item": "3" * 70_000}
    pieces = list(encode_lines([small, small, large, small]))

    assert len(pieces) == 2
    assert [orjson.loads(line) for line in b"".join(pieces).splitlines()] == [small, small, large, small]
    assert list(encode_lines([])) == []


def test_a_large_row_comes_in_pieces_and_its_bytes_are_as_if_it_were_written_at_once():
    """Lists of its own and of objects in it; what is short, or empty."""
    row = {"turns": [{"id": str(at)} for at in range(20_000)], "a": {"ids": list(range(257)), "b": {}, "c": []}, "d": 1}
    pieces = list(encode_lines([row, {}]))

    assert len(pieces) > 3
    assert all(len(piece) < 70_000 for piece in pieces)
    assert b"".join(pieces) == orjson.dumps(row) + b"\n{}\n"


@pytest.mark.parametrize("write", [encode_lines, lambda items: encode_page(items, None)])
def test_what_cannot_be_written_is_named(write):
    """With the names that it has, and nothing else of what it says."""
    with pytest.raises(Unwritable) as failed:
        list(write([{"row_id": "r1"}, {"session_id": "s", "row_id": "r2", "tools": 2**64}]))

    assert failed.value.names == {"session_id": "s", "row_id": "r2"}
    assert str(failed.value) == ""
    assert isinstance(failed.value.__cause__, TypeError)
