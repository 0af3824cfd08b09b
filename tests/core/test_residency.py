"""Whose contexts fill the KV caches of ranks."""

from gateway.core.pool import Affinity
from gateway.core.residency import Residency


def taken(residency, affinity, rank, prompt, context, now_s):
    """One turn, from its beginning to its end."""
    stay = residency.enter(affinity, rank, prompt)
    residency.cached(affinity, context, now_s)
    residency.leave(stay, now_s)


def test_a_session_counts_while_it_has_turns_and_for_a_while_after():
    """With its prompt at first, then with its whole context."""
    residency, one = Residency(10), Affinity("s")
    stay = residency.enter(one, "a", 100)
    assert (residency.tokens("a"), residency.sessions("a"), one.rank) == (100, 1, "a")
    assert residency.next_expiry_s is None
    residency.cached(one, 150, 5)
    residency.leave(stay, 5)
    assert (residency.tokens("a"), one.resident_tokens) == (150, 150)
    assert residency.next_expiry_s == 15
    residency.expire(14.9)
    assert one in residency
    residency.expire(15)
    assert one not in residency
    assert (residency.tokens("a"), residency.sessions("a"), one.rank) == (0, 0, "a")


def test_a_turn_renews_a_stay():
    """Those that are idle for longest end first."""
    residency, one, two = Residency(10), Affinity("one"), Affinity("two")
    taken(residency, one, "a", 1, 10, 0)
    taken(residency, two, "a", 1, 20, 1)
    taken(residency, one, "a", 11, 12, 2)
    residency.expire(11)
    assert (one in residency, two in residency, residency.tokens("a")) == (True, False, 12)


def test_the_longest_recent_context_counts():
    """A short branch does not hide the long one; once that is long ago, it does."""
    residency, one = Residency(10), Affinity("s")
    taken(residency, one, "a", 1, 1000, 0)
    taken(residency, one, "a", 1, 20, 5)
    assert residency.tokens("a") == 1000
    taken(residency, one, "a", 1, 30, 12)
    assert residency.tokens("a") == 30


def test_branches_are_one_session():
    """It counts once, and is idle when its last turn has ended."""
    residency, one = Residency(10), Affinity("s")
    first, second = residency.enter(one, "a", 100), residency.enter(one, "a", 60)
    assert residency.tokens("a") == 100
    residency.cached(one, 120, 1)
    residency.leave(first, 1)
    residency.expire(99)
    assert one in residency
    residency.leave(second, 99)
    assert residency.next_expiry_s == 109


def test_a_session_that_moves_leaves_nothing_behind():
    """What it had is not on the new rank."""
    residency, one, two = Residency(10), Affinity("s"), Affinity("t")
    taken(residency, one, "a", 1, 1000, 0)
    taken(residency, two, "a", 1, 5, 0)
    stay = residency.enter(one, "b", 50)
    assert (residency.tokens("a"), residency.tokens("b"), one.resident_tokens) == (5, 50, 0)
    residency.leave(stay, 1)
    assert (one in residency, residency.tokens("b"), one.rank) == (False, 0, "b")


def test_who_is_over_makes_room_at_once_or_with_its_last_turn():
    """And a session that never was there does not mind."""
    residency, one = Residency(10), Affinity("s")
    residency.forget(one)
    taken(residency, one, "a", 1, 7, 0)
    residency.forget(one)
    assert one not in residency
    stay = residency.enter(one, "a", 9)
    residency.forget(one)
    assert residency.tokens("a") == 9
    residency.cached(one, 9, 1)
    residency.leave(stay, 1)
    assert (one in residency, residency.next_expiry_s) == (False, None)


def test_an_emptied_rank_has_nobody():
    """Turns that were under way there change nothing any more."""
    residency, one, two = Residency(10), Affinity("s"), Affinity("t")
    before = residency.enter(one, "a", 5)
    taken(residency, two, "b", 1, 8, 0)
    residency.empty("a")
    residency.empty("never")
    assert (residency.tokens("a"), residency.tokens("b")) == (0, 8)
    after = residency.enter(one, "a", 6)
    residency.leave(before, 1)
    assert residency.tokens("a") == 6
    residency.leave(after, 1)
    assert one not in residency


def test_what_a_session_will_come_to_is_what_others_came_to():
    """As long as none has ended, only its own prompt is known; a longer prompt counts in any case."""
    residency = Residency(10)
    assert residency.expected(10) == 10
    for name, context in (("s", 100), ("t", 301)):
        ended = Affinity(name)
        taken(residency, ended, "a", 1, context, 0)
        residency.forget(ended)
    assert (residency.expected(10), residency.expected(999)) == (200, 999)


def test_each_session_that_ended_is_known_once_and_only_by_its_turns():
    """Finished and then deleted, with a turn under way, or idle for long before."""
    residency, one, two, never = Residency(10), Affinity("s"), Affinity("t"), Affinity("u")
    taken(residency, one, "a", 1, 100, 0)
    residency.expire(50)
    residency.forget(one)
    taken(residency, two, "a", 1, 300, 50)
    stay = residency.enter(two, "a", 310)
    residency.forget(two)
    residency.leave(stay, 51)
    failed = residency.enter(never, "a", 5000)
    residency.forget(never)
    residency.leave(failed, 51)
    for affinity in (one, two, never):
        residency.forget(affinity)
    assert residency.expected(1) == 200
    assert (residency.claims("a"), residency.sessions("a")) == (0, 0)


def test_how_long_sessions_were_long_ago_is_forgotten():
    """So that what is expected follows when they become longer."""
    residency = Residency(10)
    for context in [1000] * 100 + [10] * 300:
        ended = Affinity("s")
        taken(residency, ended, "a", 1, context, 0)
        residency.forget(ended)
    assert residency.expected(1) == 10


def test_a_session_claims_what_it_will_come_to_until_it_is_over():
    """It claims more when it is longer, on the rank where it is; what it takes up there already is another matter."""
    residency, ended, one = Residency(10), Affinity("e"), Affinity("s")
    early = residency.enter(Affinity("early"), "b", 7)
    taken(residency, ended, "a", 1, 100, 0)
    residency.forget(ended)
    taken(residency, one, "a", 20, 50, 0)
    assert (residency.tokens("a"), residency.claims("a")) == (50, 100)
    taken(residency, one, "a", 60, 130, 1)
    assert (residency.tokens("a"), residency.claims("a")) == (130, 130)
    stay = residency.enter(one, "b", 30)
    assert (residency.claims("a"), residency.tokens("b"), residency.claims("b")) == (0, 37, 107)
    residency.cached(one, 40, 2)
    residency.leave(stay, 2)
    residency.expire(12)
    assert (residency.tokens("b"), residency.claims("b")) == (7, 7)
    residency.leave(early, 12)
    assert residency.claims("b") == 0
    residency.enter(one, "a", 50)
    assert residency.claims("a") == 100
    residency.empty("a")
    assert residency.claims("a") == 0


def test_a_cache_that_is_lost_holds_what_turns_in_flight_bring() -> None:
    """Idle sessions are resident no more; those with turns begin again with their prompts."""
    residency, idle, busy = Residency(10), Affinity("idle"), Affinity("busy")
    for affinity in (idle, busy):
        stay = residency.enter(affinity, "a", 50)
        residency.cached(affinity, 100, 0)
        residency.leave(stay, 0)
    stay = residency.enter(busy, "a", 120)
    residency.lose("a")
    assert (residency.sessions("a"), residency.tokens("a")) == (1, 120)
    assert (idle.resident_tokens, busy.resident_tokens) == (0, 0)
    residency.leave(stay, 1)
    assert (residency.sessions("a"), residency.tokens("a"), residency.next_expiry_s) == (0, 0, None)
    residency.lose("a")
