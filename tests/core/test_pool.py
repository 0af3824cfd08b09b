"""Which rank takes a turn, as a table."""

from collections import Counter

import pytest

from gateway.core.pool import pick


@pytest.mark.parametrize(
    ("ranks", "load", "pinned", "expected"),
    [
        ([], {}, None, None),
        ([], {"a": 1}, "a", None),
        (["a", "b"], {"a": 1}, None, "b"),
        (["a", "b"], {"a": 9}, "a", "a"),
        (["a", "b"], {"a": 1, "b": 2}, "gone", "a"),
    ],
)
def test_the_pinned_rank_wins_then_the_least_loaded(ranks, load, pinned, expected):
    """The whole policy, but for ties."""
    assert expected == pick(ranks, load, pinned, "s")


def test_ties_are_broken_alike_everywhere_and_evenly():
    """By the session and the rank alone, not by order; sessions spread over the ranks."""
    ranks = [f"http://engine#{number}" for number in range(4)]
    chosen = {f"s{at}": pick(ranks, {}, None, f"s{at}") for at in range(400)}

    assert chosen == {session: pick(ranks[::-1], dict.fromkeys(ranks, 3), None, session) for session in chosen}
    assert all(60 < count < 140 for count in Counter(chosen.values()).values())


def test_a_rank_that_leaves_moves_only_its_own_sessions():
    """Which is what rendezvous hashing is for."""
    ranks = ["a", "b", "c"]
    before = {f"s{at}": pick(ranks, {}, None, f"s{at}") for at in range(100)}
    after = {session: pick(ranks[:2], {}, None, session) for session in before}

    assert all(after[session] == rank for session, rank in before.items() if rank != "c")
