"""Which rank takes a turn, as a table."""

import pytest

from gateway.core.pool import pick


@pytest.mark.parametrize(
    ("ranks", "load", "pinned", "expected"),
    [
        ([], {}, None, None),
        ([], {"a": 1}, "a", None),
        (["a", "b"], {}, None, "a"),
        (["a", "b"], {"a": 1}, None, "b"),
        (["a", "b"], {"a": 9}, "a", "a"),
        (["a", "b"], {"a": 1, "b": 2}, "gone", "a"),
        (["b", "a"], {"a": 1, "b": 1}, None, "b"),
    ],
)
def test_the_pinned_rank_wins_then_the_least_loaded_then_the_first(ranks, load, pinned, expected):
    """The whole policy."""
    assert expected == pick(ranks, load, pinned)
