"""A cursor names a place, a moment, and what is listed."""

import pytest

from gateway.core.fate import Moment
from gateway.errors import BadRequest
from gateway.wire.cursor import Cursor, PullCursor, decode_cursor, decode_pull_cursor

CURSOR = Cursor(20, 3, "0123abcd", ((7, Moment(40, 12)), (9, Moment(0, 0))))


def test_a_cursor_comes_back_as_it_went():
    """For as many sessions as there are."""
    assert str(CURSOR) == "20.3.0123abcd.7-40-12.9-0-0"
    assert decode_cursor(str(CURSOR), "0123abcd") == CURSOR


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "x",
        "20",
        "20.3",
        "20.3.0123abcd",
        "20.3.0123abcd.",
        "20.3.0123abcd.7-40",
        "20.3.0123abcd.7-40-12.",
        "20.3.0123abcd.7-40-12 ",
        "20.3.0123abcd.7-40-12\n",
        "-20.3.0123abcd.7-40-12",
        "20.3.0123ABCD.7-40-12",
        "20.3.0123abcd.7-40--12",
        "\u0663.3.0123abcd.7-40-12",
        "\u00b2.3.0123abcd.7-40-12",
        "9" * 13 + ".3.0123abcd.7-40-12",
        "9" * 5000 + ".3.0123abcd.7-40-12",
    ],
)
def test_a_cursor_that_is_none_of_ours_is_refused(text):
    """Digits only, in ASCII, and not too many."""
    with pytest.raises(BadRequest, match="`next` of an earlier page") as caught:
        decode_cursor(text, "0123abcd")
    assert caught.value.param == "cursor"


def test_a_cursor_of_another_query_is_refused():
    """Its page would belong to other rows than the pages before."""
    with pytest.raises(
        BadRequest, match="another query: repeat the path and the parameters of the first page"
    ) as caught:
        decode_cursor(str(CURSOR), "89abcdef")
    assert caught.value.param == "cursor"


def test_a_cursor_among_rollouts_comes_back_as_it_went():
    """Behind one, or within one."""
    behind, within = PullCursor(5, "0123abcd"), PullCursor(5, "0123abcd", CURSOR)
    assert str(behind) == "5.0123abcd"
    assert str(within) == "5.0123abcd~20.3.0123abcd.7-40-12.9-0-0"
    for cursor in (behind, within):
        assert decode_pull_cursor(str(cursor), "0123abcd") == cursor


@pytest.mark.parametrize("text", ["", "5", "5.0123ABCD", "5.0123abcd~", "5.0123abcd~x", "5.0123abcd\n", str(CURSOR)])
def test_a_cursor_among_rollouts_that_is_none_of_ours_is_refused(text):
    """That of one session, too."""
    with pytest.raises(BadRequest, match="`next` of an earlier page"):
        decode_pull_cursor(text, "0123abcd")


def test_a_cursor_among_rollouts_of_another_query_is_refused():
    """Within a rollout likewise."""
    for cursor in (PullCursor(5, "89abcdef"), PullCursor(5, "0123abcd", Cursor(1, 0, "89abcdef", CURSOR.moments))):
        with pytest.raises(BadRequest, match="another query"):
            decode_pull_cursor(str(cursor), "0123abcd")
