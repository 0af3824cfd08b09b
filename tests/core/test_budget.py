"""What a session may use up, as tables."""

from contextlib import nullcontext

import pytest

from gateway.core.budget import Budget, Spent
from gateway.errors import ContextLengthExceeded, TooManyRequests


def limit(budget: Budget, spent: Spent, **changed: int) -> int:
    """The limit of one answer in a model of 1000 tokens, after a prompt of 100, unless `changed`."""
    known = {"model_tokens": 1000, "prompt_tokens": 100, "n": 1} | changed
    return budget.limit(spent, asked=known.pop("asked", None), **known).tokens


@pytest.mark.parametrize(
    ("budget", "spent", "changed", "expected"),
    [
        (Budget(), Spent(), {}, 900),
        (Budget(), Spent(completion_tokens=10**9, turns=10**9), {}, 900),
        (Budget(), Spent(), {"asked": 7}, 7),
        (Budget(), Spent(), {"asked": 901}, 900),
        (Budget(max_context_tokens=150), Spent(), {}, 50),
        (Budget(max_context_tokens=101), Spent(), {}, 1),
        (Budget(max_context_tokens=5000), Spent(), {}, 900),
        (Budget(max_context_tokens=150), Spent(), {"asked": 49}, 49),
        (Budget(max_completion_tokens=30), Spent(completion_tokens=10), {}, 20),
        (Budget(max_completion_tokens=30), Spent(completion_tokens=10), {"asked": 21}, 20),
        (Budget(max_completion_tokens=30), Spent(completion_tokens=10), {"n": 3}, 6),
        (Budget(max_completion_tokens=30), Spent(completion_tokens=10), {"n": 20}, 1),
        (Budget(max_context_tokens=150, max_completion_tokens=30), Spent(), {"asked": 40}, 30),
    ],
)
def test_an_answer_gets_the_least_that_anything_leaves_it(budget, spent, changed, expected):
    """The window, the session's own, the request's limit, and what is left of the sampled tokens."""
    assert limit(budget, spent, **changed) == expected


@pytest.mark.parametrize(
    ("budget", "asked", "bound"),
    [
        (Budget(), None, "context"),
        (Budget(), 900, "max_tokens"),
        (Budget(), 901, "context"),
        (Budget(max_completion_tokens=900), None, "budget"),
        (Budget(max_completion_tokens=30), 30, "max_tokens"),
        (Budget(max_completion_tokens=30), 31, "budget"),
        (Budget(max_context_tokens=130), None, "budget"),
        (Budget(max_context_tokens=1000), None, "context"),
        (Budget(max_context_tokens=5000), None, "context"),
        (Budget(max_context_tokens=150, max_completion_tokens=901), None, "budget"),
    ],
)
def test_a_limit_says_what_it_comes_from(budget, asked, bound):
    """Where several leave equally much: the agent's word, then the session's budget, then the model."""
    found = budget.limit(Spent(), model_tokens=1000, prompt_tokens=100, asked=asked, n=1)
    assert found.bound == bound


@pytest.mark.parametrize(
    ("budget", "spent", "changed", "refusal", "said"),
    [
        (Budget(), Spent(), {"prompt_tokens": 1000}, ContextLengthExceeded, "the model's"),
        (Budget(max_context_tokens=100), Spent(), {}, ContextLengthExceeded, "this session may use: 100"),
        (Budget(max_completion_tokens=30), Spent(completion_tokens=30), {}, TooManyRequests, "30 of 30"),
        (Budget(max_completion_tokens=30), Spent(completion_tokens=31), {}, TooManyRequests, "31 of 30"),
        (
            Budget(max_completion_tokens=30),
            Spent(completion_tokens=28),
            {"n": 3},
            TooManyRequests,
            "n=3 .*28 of 30 .*2 left",
        ),
        (Budget(max_completion_tokens=9), Spent(), {"n": 10}, TooManyRequests, "does not suffice for n=10 .*0 of 9"),
    ],
)
def test_an_answer_of_no_token_is_refused(budget, spent, changed, refusal, said):
    """By 400, which harnesses compact on, where the context is full; by 429, which they stop on, where the budget is."""
    with pytest.raises(refusal, match=said) as refused:
        limit(budget, spent, **changed)

    assert not refused.value.retryable


@pytest.mark.parametrize(
    ("budget", "spent", "in_flight", "n", "admitted"),
    [
        (Budget(), Spent(turns=10**9), 10**9, 128, True),
        (Budget(max_turns=3), Spent(turns=2), 0, 1, True),
        (Budget(max_turns=3), Spent(turns=2, aborted_turns=9), 0, 1, True),
        (Budget(max_turns=3), Spent(turns=3), 0, 1, False),
        (Budget(max_turns=3), Spent(turns=2), 1, 1, False),
        (Budget(max_turns=3), Spent(turns=1), 0, 2, True),
        (Budget(max_turns=3), Spent(turns=1), 0, 3, False),
        (Budget(max_completion_tokens=9), Spent(completion_tokens=8), 4, 1, True),
        (Budget(max_completion_tokens=9), Spent(completion_tokens=9), 0, 1, False),
        (Budget(max_completion_tokens=9), Spent(completion_tokens=8), 0, 2, False),
    ],
)
def test_a_call_begins_only_when_all_its_answers_can(budget, spent, in_flight, n, admitted):
    """Turns in flight count; aborted ones do not, since nobody got an answer."""
    with nullcontext() if admitted else pytest.raises(TooManyRequests, match="budget"):
        budget.admit(spent, in_flight=in_flight, n=n)


@pytest.mark.parametrize(
    ("in_flight", "n", "said"),
    [
        (2, 1, "used up: 1 are taken, 2 in flight"),
        (1, 2, "does not suffice for n=2 answers: 1 are taken, 1 in flight, 1 l"),
    ],
)
def test_what_is_too_much_for_the_rest_is_not_said_to_be_used_up(in_flight, n, said):
    """A smaller `n` would be served."""
    with pytest.raises(TooManyRequests, match=said):
        Budget(max_turns=3).admit(Spent(turns=1), in_flight=in_flight, n=n)


def test_a_bound_that_is_given_wins_over_the_default():
    """One by one, in either direction."""
    defaults = Budget(max_context_tokens=1, max_completion_tokens=2, max_turns=3)

    assert Budget().over(defaults) == defaults
    assert Budget(max_turns=9).over(defaults) == Budget(1, 2, 9)
    assert Budget(7, 8).over(Budget()) == Budget(7, 8)


@pytest.mark.parametrize(("own", "window"), [(None, 1000), (100, 100), (2000, 1000)])
def test_a_session_sees_the_smaller_window(own, window):
    """No session gets more than the model has."""
    assert Budget(max_context_tokens=own).window(1000) == window
