"""Bounds on what a fleet does when much goes wrong at once."""

from gateway.core.breaker import Breaker, ResumeBudget


def test_answers_beyond_the_burst_wait_for_their_turn():
    """In the order in which they come, at the rate; none is refused."""
    budget = ResumeBudget(rate_per_s=2, burst=3)
    assert [budget.take(0.0) for _ in range(6)] == [0.0, 0.0, 0.0, 0.5, 1.0, 1.5]


def test_time_brings_tokens_back_up_to_the_burst():
    """A long quiet saves no more than that."""
    budget = ResumeBudget(rate_per_s=2, burst=3)
    for _ in range(4):
        budget.take(0.0)
    assert budget.take(2.0) == 0.0
    assert [budget.take(1000.0) for _ in range(4)] == [0.0, 0.0, 0.0, 0.5]


def test_a_few_stalls_are_believed_however_few_turns_there_are():
    """The fifth within a minute is too many of one turn."""
    breaker = Breaker()
    assert [breaker.stalled(at, 1) for at in range(5)] == [True] * 4 + [False]


def test_many_stalls_turn_the_detection_off_for_a_minute():
    """More than a quarter of what was in flight in the last minute, ended calls included."""
    breaker = Breaker()
    for _ in range(20):
        breaker.ended(1.0)
    assert [breaker.stalled(2.0, 20) for _ in range(11)] == [True] * 10 + [False]
    assert not breaker.stalled(61.9, 20)
    assert breaker.stalled(62.1, 20)


def test_what_ended_more_than_a_minute_ago_does_not_count():
    """Nor do stalls."""
    breaker = Breaker()
    for _ in range(100):
        breaker.ended(0.0)
    breaker.ended(61.0)
    assert [breaker.stalled(61.0, 20) for _ in range(6)] == [True] * 5 + [False]
