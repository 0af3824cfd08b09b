"""A cursor names a place, a moment, and what is listed."""

from base64 import urlsafe_b64encode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.core.fate import Moment
from gateway.errors import BadRequest
from gateway.wire.cursor import Cursor, Place, decode_cursor

BEHIND = Cursor(300, "0123abcd")
WITHIN = Cursor(5, "0123abcd", Place(20, 3, ((7, Moment(40, 12)), (9, Moment(0, 130)))))
NUMBERS = st.integers(0, 2**42)


def written(*packed: int) -> str:
    """Bytes, as a cursor is written."""
    return urlsafe_b64encode(bytes.fromhex("0123abcd") + bytes(packed)).rstrip(b"=").decode()


@pytest.mark.parametrize("cursor", [BEHIND, WITHIN, Cursor(0, "00000000", Place(0, 0, ()))])
def test_a_cursor_comes_back_as_it_went(cursor):
    """Behind a rollout or within one, of as many sessions as there are."""
    assert decode_cursor(str(cursor), cursor.query) == cursor


@given(NUMBERS, NUMBERS, NUMBERS, st.dictionaries(st.integers(1, 2**42), st.tuples(NUMBERS, NUMBERS)))
def test_every_cursor_comes_back_as_it_went(rollout, start, versions, moments):
    """Whatever was counted."""
    place = Place(start, versions, tuple((number, Moment(*moments[number])) for number in sorted(moments)))
    cursor = Cursor(rollout, "89abcdef", place)
    assert decode_cursor(str(cursor), "89abcdef") == cursor


def test_a_cursor_is_short():
    """Sessions that were made one after the other take three bytes each while they are small."""
    assert str(WITHIN) == written(5, 20, 3, 6, 40, 12, 1, 0, 0x82, 1)
    assert len(str(Cursor(1, "0123abcd", Place(20, 1, tuple((n, Moment(9, 9)) for n in range(1, 101)))))) == 410


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "x",
        "20.3.0123abcd.7-40-12",
        "\u0663",
        str(WITHIN) + "=",
        str(WITHIN) + "\n",
        " " + str(WITHIN),
        str(WITHIN)[:3],
        written(),
        written(5, 20),
        written(5, 20, 3, 6),
        written(5, 20, 3, 6, 40),
        written(0x80),
        written(0x80, 0),
        written(*[0x80] * 7, 1),
        written(*[0xFF] * 5000, 1),
    ],
)
def test_a_cursor_that_is_none_of_ours_is_refused(text):
    """What is cut, too long, or written in another way than we do."""
    with pytest.raises(BadRequest, match="`next` of an earlier page") as caught:
        decode_cursor(text, "0123abcd")
    assert caught.value.param == "cursor"


@pytest.mark.parametrize("cursor", [BEHIND, WITHIN])
def test_a_cursor_of_another_query_is_refused(cursor):
    """Its page would belong to other rows than the pages before."""
    with pytest.raises(
        BadRequest, match="another query: repeat the path and the parameters of the first page"
    ) as caught:
        decode_cursor(str(cursor), "89abcdef")
    assert caught.value.param == "cursor"
