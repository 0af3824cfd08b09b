"""What becomes of an answer that was cut, as tables."""

import pytest

from gateway.core.resume import (
    LEAST_ABORTED_IDS,
    MOST_FREE_RESTARTS,
    Attempts,
    continued,
    is_free,
    is_resumable,
    next_step,
    reuse_of,
)
from gateway.core.types import Sampling

STOP = 9


@pytest.mark.parametrize(
    ("sampling", "resumable"),
    [
        (Sampling(), True),
        (Sampling(temperature=0.0, top_p=0.5, top_k=3, min_p=0.1, stop=("x",), ignore_eos=True, max_tokens=5), True),
        (Sampling(repetition_penalty=1.5), True),
        (Sampling(thinking_token_budget=7, allowed_token_ids=(1, 2)), True),
        (Sampling(logit_bias={"1": 1.0}), True),
        (Sampling(min_tokens=3), True),
        (Sampling(presence_penalty=0.0, frequency_penalty=0.0, seed=-1, extra_args={}), True),
        (Sampling(logit_bias={"1": 1.0}, min_tokens=0), True),
        (Sampling(logit_bias={"1": 1.0}, min_tokens=3), False),
        (Sampling(presence_penalty=0.5), False),
        (Sampling(frequency_penalty=-0.5), False),
        (Sampling(seed=0), False),
        (Sampling(extra_args={"a": 1}), False),
        (Sampling(bad_words=("no",)), False),
        (Sampling(repetition_detection={"max_pattern_size": 2, "min_pattern_size": 0, "min_count": 2}), False),
    ],
)
def test_an_answer_can_be_gone_on_with_unless_an_engine_minds_what_it_has_sampled(sampling, resumable):
    """And never where a grammar binds it."""
    assert is_resumable(sampling, constrained=False) is resumable
    assert not is_resumable(sampling, constrained=True)


def found(ids, sampling=None, **changes):
    """What becomes of `ids`; an answer of up to four that may go on, unless `changes` say otherwise."""
    usual = {"max_tokens": 4, "completes_stop": False, "resumable": True, "told": False, "may_try": True}
    sampling = sampling or Sampling()
    stop_ids = () if sampling.ignore_eos else (STOP,)
    return next_step(ids, sampling, stop_ids=stop_ids, **usual | changes)


@pytest.mark.parametrize(
    ("ids", "sampling", "changes", "due"),
    [
        ([1, STOP], None, {}, "finished"),
        ([1, STOP], None, {"may_try": False}, "finished"),
        ([1, 2, 3, STOP], None, {}, "finished"),
        ([STOP], Sampling(min_tokens=1), {}, "finished"),
        ([STOP], Sampling(min_tokens=2), {}, "resume"),
        ([STOP], Sampling(ignore_eos=True), {}, "resume"),
        ([STOP, 1], None, {}, "resume"),
        ([1], None, {"completes_stop": True}, "finished"),
        ([1, 2, 3, 4], None, {}, "length"),
        ([1, 2, 3, 4], None, {"resumable": False, "may_try": False, "told": True}, "length"),
        ([1], None, {}, "resume"),
        ([1], None, {"told": True}, "resume"),
        ([1], None, {"resumable": False}, "restart"),
        ([1], None, {"resumable": False, "told": True}, "give_up"),
        ([], None, {}, "again"),
        ([], None, {"resumable": False}, "again"),
        ([], None, {"may_try": False}, "give_up"),
        ([1], None, {"may_try": False}, "give_up"),
    ],
)
def test_each_cut_answer_has_one_fate(ids, sampling, changes, due):
    """What is complete is so, whether or not another call could be made."""
    assert found(ids, sampling, **changes) == due


@pytest.mark.parametrize(
    ("reason", "sampled", "resumable", "free"),
    [
        ("pause", 0, True, True),
        ("pause", 5, False, True),
        ("removed", 0, True, True),
        ("abort", LEAST_ABORTED_IDS, True, True),
        ("abort", LEAST_ABORTED_IDS - 1, True, False),
        ("abort", 1000, False, False),
        ("abort", 0, True, False),
        ("lost", 1000, True, False),
        ("stall", 1000, True, False),
        ("engine_error", 0, True, False),
        ("no_finish", 1000, True, False),
    ],
)
def test_an_attempt_is_free_where_the_cut_was_wanted_or_an_abort_has_brought_something(
    reason, sampled, resumable, free
):
    """What is to be made anew has brought nothing."""
    assert is_free(reason, sampled, resumable=resumable, restarts=0) is free


def test_an_answer_that_is_made_anew_again_and_again_costs_attempts_in_the_end():
    """Whoever wanted its cuts; what goes on, or had brought nothing, costs none."""
    assert is_free("pause", 9, resumable=False, restarts=MOST_FREE_RESTARTS - 1)
    assert not is_free("pause", 9, resumable=False, restarts=MOST_FREE_RESTARTS)
    assert is_free("pause", 0, resumable=False, restarts=MOST_FREE_RESTARTS)
    assert is_free("removed", 9, resumable=True, restarts=MOST_FREE_RESTARTS)


def test_attempts_are_made_at_once_first_and_then_after_twice_the_time():
    """Free ones do not count, nor wait unless they must."""
    attempts = Attempts(9, 1000.0)
    waits = []
    for _ in range(9):
        assert attempts.may(free=False)
        waits.append(attempts.back_off_s(free=False))
        assert attempts.back_off_s(free=True) == 0
        assert attempts.back_off_s(free=True, least_s=3.0) == 3.0
    assert waits == [0, 0.25, 0.5, 1, 2, 4, 8, 8, 8]
    assert not attempts.may(free=False)
    assert attempts.may(free=True)


def test_however_many_attempts_there_are_they_end_when_their_time_is_used_up():
    """None waits for longer than what is left of it."""
    attempts = Attempts(10**9, 10.0)
    while attempts.may(free=False):
        attempts.waited_s += attempts.back_off_s(free=False)
    assert attempts.waited_s == 10.0
    assert not attempts.may(free=True)
    assert Attempts(5, 2.0).back_off_s(free=False, least_s=60.0) == 2.0


def test_lengths_count_what_was_sampled_before():
    """The budget of thoughts does not: engines find those in the prompt."""
    asked = Sampling(max_tokens=10, min_tokens=5, thinking_token_budget=8, top_p=0.5)
    assert continued(asked, 3) == Sampling(max_tokens=7, min_tokens=2, thinking_token_budget=8, top_p=0.5)
    assert continued(asked, 9) == Sampling(max_tokens=1, min_tokens=0, thinking_token_budget=8, top_p=0.5)
    assert continued(Sampling(), 3) == Sampling()


@pytest.mark.parametrize(
    ("cached", "same_rank", "same_version", "due"),
    [
        (None, True, True, "kept"),
        (None, False, True, "recomputed"),
        (None, True, False, "recomputed"),
        (0, True, True, "recomputed"),
        (1, True, False, "kept"),
        (10, False, True, "recomputed"),
        (11, False, True, "kept"),
    ],
)
def test_a_cache_was_kept_where_the_engine_says_so_or_nothing_speaks_against_it(cached, same_rank, same_version, due):
    """On another rank a prompt of ten may be cached for others."""
    assert reuse_of(cached, prompt_tokens=10, same_rank=same_rank, same_version=same_version) == due
