"""When a rank takes turns: every line of the table."""

import pytest

from gateway.core.health import MOST_FAILURES, Health, HealthEvent, HealthState

TABLE: list[tuple[HealthState, HealthEvent, HealthState]] = [
    ("up", "answered", "up"),
    ("up", "failed", "suspect"),
    ("up", "checked", "up"),
    ("up", "unreachable", "down"),
    ("up", "proven", "up"),
    ("up", "unproven", "up"),
    ("suspect", "answered", "up"),
    ("suspect", "failed", "suspect"),
    ("suspect", "checked", "up"),
    ("suspect", "unreachable", "down"),
    ("suspect", "proven", "suspect"),
    ("suspect", "unproven", "suspect"),
    ("down", "answered", "down"),
    ("down", "failed", "down"),
    ("down", "checked", "probing"),
    ("down", "unreachable", "down"),
    ("down", "proven", "down"),
    ("down", "unproven", "down"),
    ("probing", "answered", "probing"),
    ("probing", "failed", "probing"),
    ("probing", "checked", "probing"),
    ("probing", "unreachable", "down"),
    ("probing", "proven", "up"),
    ("probing", "unproven", "down"),
]


def after(*events: HealthEvent) -> Health:
    """A new rank, after all that."""
    health = Health()
    for event in events:
        health = health.after(event)
    return health


@pytest.mark.parametrize(("before", "event", "then"), TABLE)
def test_what_is_seen_of_a_rank_makes_it_what_it_is(before: HealthState, event: HealthEvent, then: HealthState) -> None:
    """A late word about a turn of before takes no rank back into service, and a check alone does not either."""
    assert Health(before).after(event).state == then


def test_turns_go_where_nothing_is_known_against_it_or_little() -> None:
    """A new rank takes turns; one that is down, or not proven yet, does not."""
    takes = {state: Health(state).is_in_service for state, _, _ in TABLE}
    assert takes == {"up": True, "suspect": True, "down": False, "probing": False}
    assert Health().is_in_service


def test_one_failure_alone_takes_no_rank_out_of_service() -> None:
    """Only so many in a row do; an answer between them begins anew."""
    health = Health()
    for failures in range(1, MOST_FAILURES):
        health = health.after("failed")
        assert health == Health("suspect", failures)
    assert health.after("failed").state == "down"
    assert after("failed", "failed", "answered", "failed", "failed").state == "suspect"


def test_a_rank_that_answers_checks_and_fails_turns_goes_down_all_the_same() -> None:
    """A check takes suspicion from it, and not what it is suspected of."""
    assert after("failed", "checked") == Health("up", 1)
    assert after("failed", "checked", "failed", "checked", "failed").state == "down"


def test_a_rank_that_was_proven_begins_anew() -> None:
    """What failed before it was down is not held against it."""
    back = after("failed", "unreachable", "failed", "checked", "failed", "proven")
    assert back == Health()
