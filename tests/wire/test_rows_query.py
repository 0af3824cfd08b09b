"""What a URL asks of rows."""

import pytest

from gateway.core.selection import Selection
from gateway.errors import BadRequest
from gateway.wire.rows_query import RowsQuery, decode_query


def test_nothing_said_is_everything_that_a_client_got():
    """Once, as JSON."""
    assert decode_query([]) == RowsQuery(Selection(), "json", "base64", footer=False, cursor=None)


def test_everything_can_be_said():
    """In any order."""
    pairs = [
        ("cursor", "c"),
        ("shared", "split"),
        ("max_staleness", "0"),
        ("distribution", "truncated,exact"),
        ("dropped", "exclude"),
        ("include", "aborted"),
        ("leaves", "latest"),
        ("footer", "true"),
        ("routed_experts", "base85"),
        ("arrays", "base64"),
        ("status", "finished"),
    ]
    selection = Selection("latest", True, "exclude", frozenset(["exact", "truncated"]), 0, "split")
    expected = RowsQuery(selection, "base64", "base85", footer=True, cursor="c")
    assert decode_query(pairs, ("status",)) == expected
    assert decode_query(pairs[::-1], ("status",)) == expected


@pytest.mark.parametrize(
    ("pairs", "param", "told"),
    [
        ([("leaf", "all")], "leaf", "not known here: these are arrays, cursor, distribution"),
        ([("status", "open")], "status", "not known here"),
        ([("leaves", "some")], "leaves", "all or latest"),
        ([("leaves", "")], "leaves", "all or latest"),
        ([("leaves", "all"), ("leaves", "all")], "leaves", "twice"),
        ([("include", "all")], "include", "aborted"),
        ([("dropped", "yes")], "dropped", "include or exclude"),
        ([("distribution", "")], "distribution", "exact, truncated"),
        ([("distribution", "exact,")], "distribution", "exact, truncated"),
        ([("distribution", "exact, greedy")], "distribution", "exact, truncated"),
        ([("max_staleness", "-1")], "max_staleness", "0 or more"),
        ([("max_staleness", "1.0")], "max_staleness", "0 or more"),
        ([("max_staleness", "\u0661")], "max_staleness", "0 or more"),
        ([("max_staleness", "1" * 10)], "max_staleness", "0 or more"),
        ([("shared", "twice")], "shared", "once or split or duplicate"),
        ([("arrays", "hex")], "arrays", "json or base64"),
        ([("routed_experts", "json")], "routed_experts", "base64 or base85"),
        ([("footer", "1")], "footer", "false or true"),
    ],
)
def test_what_is_not_known_is_refused_by_name(pairs, param, told):
    """A parameter that is misspelt would otherwise train on other rows than were meant."""
    with pytest.raises(BadRequest, match=told) as caught:
        decode_query(pairs)
    assert caught.value.param == param


def test_a_digest_tells_selections_apart():
    """And says nothing of how the rows are written."""
    exact = decode_query([("distribution", "exact,greedy")])
    assert exact.digest == decode_query([("distribution", "greedy,exact"), ("arrays", "base64")]).digest
    assert exact.digest != decode_query([]).digest
    assert len(exact.digest) == 8
