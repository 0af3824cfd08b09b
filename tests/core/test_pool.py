"""Which rank takes a turn, as a table."""

from collections import Counter

import pytest

from gateway.core.pool import Bounds, RankLoad, pick


def ranks(*names, **fields):
    """Ranks by name, all alike."""
    return [RankLoad(name, **fields) for name in names]


A, B = RankLoad("a", 1), RankLoad("b", 2)
BUSY = RankLoad("a", 9, overloaded=True)


@pytest.mark.parametrize(
    ("loads", "pinned", "expected"),
    [
        ([], None, None),
        ([], "a", None),
        ([A, RankLoad("b")], None, "b"),
        ([RankLoad("a", 9), B], "a", "a"),
        ([A, B], "gone", "a"),
        ([RankLoad("a", 9, queued_tokens=10**6, resident_tokens=10**6), B], "a", "a"),
        # Load is more than turns.
        ([RankLoad("a", queued_tokens=3 * 8192), B], None, "b"),
        ([RankLoad("a", resident_tokens=3 * 8192), B], None, "b"),
        ([RankLoad("a", queued_tokens=8192, resident_tokens=2 * 8192), B], None, "b"),
        ([RankLoad("a", queued_tokens=8191), RankLoad("b", 1)], None, "a"),
        # A session leaves an overloaded rank for one with less than half its load, which is well.
        ([BUSY, RankLoad("b", 4)], "a", "b"),
        ([BUSY, RankLoad("b", 5)], "a", "a"),
        ([BUSY, RankLoad("b", 4, overloaded=True)], "a", "a"),
        ([BUSY, RankLoad("b", 4, suspect=True)], "a", "a"),
        ([BUSY], "a", "a"),
        # Who is not pinned goes there last of all, and to a suspect rank after that.
        ([BUSY, RankLoad("b", 99)], None, "b"),
        ([RankLoad("a", suspect=True), RankLoad("b", 99, overloaded=True)], None, "b"),
        ([RankLoad("a", suspect=True), B], "a", "a"),
    ],
)
def test_the_pinned_rank_wins_then_the_least_loaded(loads, pinned, expected):
    """The whole policy, but for ties."""
    assert expected == pick(loads, pinned, "s") == pick(loads[::-1], pinned, "s")


def test_a_session_has_as_many_calls_at_once_as_its_rank_takes_and_lets_wait():
    """More would be refused for ever."""
    assert Bounds(rank_turns=3, queue_turns=4).most_choices == 7


def test_ties_are_broken_alike_everywhere_and_evenly():
    """By the session and the rank alone, not by order; sessions spread over the ranks."""
    names = [f"http://engine#{number}" for number in range(4)]
    chosen = {f"s{at}": pick(ranks(*names), None, f"s{at}") for at in range(400)}

    assert chosen == {session: pick(ranks(*names[::-1], in_flight=3), None, session) for session in chosen}
    assert all(60 < count < 140 for count in Counter(chosen.values()).values())


def test_a_rank_that_leaves_moves_only_its_own_sessions():
    """Which is what rendezvous hashing is for."""
    before = {f"s{at}": pick(ranks("a", "b", "c"), None, f"s{at}") for at in range(100)}
    after = {session: pick(ranks("a", "b"), None, session) for session in before}

    assert all(after[session] == rank for session, rank in before.items() if rank != "c")
