"""What is in effect when a turn is sampled, what distribution that makes, and what its logprobs are worth."""

from typing import get_args

import pytest

from gateway.core.sampling import LogprobsMode, clamped, nth_seed, overridden, record, said
from gateway.core.types import Sampling

DEFAULTS = {
    "temperature": 1.0,
    "top_p": 1.0,
    "top_k": 0,
    "min_p": 0.0,
    "presence_penalty": 0.0,
    "frequency_penalty": 0.0,
    "repetition_penalty": 1.0,
    "min_tokens": 0,
    "max_tokens": 9,
    "include_stop_str_in_output": False,
    "ignore_eos": False,
}


def test_what_is_said_is_named():
    """Silence is not."""
    assert said(Sampling()) == {}
    assert said(Sampling(temperature=0, ignore_eos=False, stop=("a",))) == {
        "temperature": 0,
        "ignore_eos": False,
        "stop": ("a",),
    }


@pytest.mark.parametrize(
    ("asked", "used"),
    [
        ({}, {}),
        ({"temperature": 0.7, "top_p": 0.9, "seed": 3}, {"temperature": 0.7, "top_p": 0.9, "seed": 3}),
        ({"temperature": 0.0099}, {"temperature": 0.01}),
        ({"temperature": 1e-9, "top_p": 0.9}, {"temperature": 0.01, "top_p": 0.9}),
        ({"temperature": 0.01}, {"temperature": 0.01}),
        ({"temperature": 0, "top_p": 0.9, "top_k": 5, "min_p": 0.1}, {"temperature": 0}),
        ({"top_k": -1}, {}),
        ({"seed": -1}, {}),
        ({"seed": 0}, {"seed": 0}),
        ({"logit_bias": {"1": 120.0, "2": -101, "3": 7}}, {"logit_bias": {"1": 100.0, "2": -100.0, "3": 7}}),
        ({"logit_bias": {}}, {}),
        ({"max_tokens": 5, "min_tokens": 3}, {"min_tokens": 3}),
        ({"min_tokens": 12}, {"min_tokens": 9}),
        ({"stop": ("a",), "ignore_eos": True}, {"stop": ("a",), "ignore_eos": True}),
        ({"extra_args": {"a": 1}}, {"extra_args": {"a": 1}}),
    ],
)
def test_the_parameters_in_effect_are_what_the_engine_makes_of_those_it_was_sent(asked, used):
    """Its defaults filled in, its clamps made; the lengths as they were sent."""
    assert said(record(Sampling(**asked), max_tokens=9).effective) == DEFAULTS | used


def test_what_is_clamped_twice_is_clamped_once():
    """Greedy sampling included."""
    for asked in ({"temperature": 0}, {"temperature": 1e-3, "top_k": -1, "logit_bias": {"1": 200}}):
        once = clamped(Sampling(**asked))
        assert clamped(once) == once


@pytest.mark.parametrize(
    ("asked", "constrained", "distribution", "exact"),
    [
        ({}, False, "exact", {"processed", "raw"}),
        ({"temperature": 1, "seed": 5, "stop": ("a",)}, False, "exact", {"processed", "raw"}),
        ({"temperature": 0.7}, False, "exact", {"processed"}),
        ({"logit_bias": {"5": 0.0}}, False, "exact", {"processed", "raw"}),
        ({"top_p": 0.9}, False, "truncated", {"processed"}),
        ({"top_k": 1}, False, "truncated", {"processed"}),
        ({"min_p": 0.1}, False, "truncated", {"processed"}),
        ({"presence_penalty": 0.1}, False, "penalised", {"processed"}),
        ({"frequency_penalty": -0.1}, False, "penalised", {"processed"}),
        ({"repetition_penalty": 1.1}, False, "penalised", {"processed"}),
        ({"logit_bias": {"5": 1}}, False, "penalised", {"processed"}),
        ({"min_tokens": 1, "top_p": 0.5}, False, "penalised", {"processed"}),
        ({"bad_words": ("no",)}, False, "constrained", {"processed"}),
        ({"allowed_token_ids": (1, 2)}, False, "constrained", {"processed"}),
        ({"thinking_token_budget": 0}, False, "constrained", {"processed"}),
        ({"thinking_token_budget": -1}, False, "exact", {"processed", "raw"}),
        ({"repetition_detection": {"max_pattern_size": 2}}, False, "exact", {"processed", "raw"}),
        ({}, True, "constrained", {"processed", "raw"}),
        ({"top_p": 0.5}, True, "constrained", {"processed"}),
        ({"extra_args": {"a": 1}}, True, "unknown", {"raw"}),
        ({"extra_args": {"a": 1}, "temperature": 0.5}, False, "unknown", set()),
        ({"temperature": 0, "extra_args": {"a": 1}}, True, "greedy", set()),
    ],
)
def test_a_distribution_is_the_first_that_applies_and_decides_what_logprobs_are_worth(
    asked, constrained, distribution, exact
):
    """A grammar shapes the logits before raw logprobs are taken; nothing else does, `extra_args` and words included.

    Of an engine that has not told they are exact where they are in either mode.
    """
    exact = exact | ({"untold"} if exact == {"processed", "raw"} else set())
    for mode in get_args(LogprobsMode):
        made = record(Sampling(**asked), max_tokens=9, constrained=constrained, logprobs_mode=mode)
        assert (made.distribution, made.logprobs_exact) == (distribution, mode in exact)


@pytest.mark.parametrize(
    ("asked", "governed", "shown"),
    [
        ({}, {"temperature": 1.0}, {}),
        ({"temperature": 0.7, "top_p": 0.9}, {"temperature": 1.0, "top_p": 0.9}, {"temperature": 0.7}),
        ({"temperature": 1}, {"temperature": 1.0}, {}),
        ({"temperature": 0, "top_p": 0.5}, {"temperature": 0, "top_p": 0.5}, {}),
        ({"temperature": 0, "top_p": 0.5}, {"temperature": 1.0, "top_p": 1.0}, {"temperature": 0, "top_p": 0.5}),
        ({"top_k": -1}, {"top_k": 0}, {}),
        ({"top_k": 4}, {"top_k": 0}, {"top_k": 4}),
        ({"seed": 4}, {}, {"seed": 4}),
        ({"seed": -1}, {}, {}),
        ({"ignore_eos": True, "stop": ("a",)}, {"ignore_eos": False, "stop": ("a",)}, {"ignore_eos": True}),
    ],
)
def test_what_is_overridden_is_shown_as_it_was_asked_for(asked, governed, shown):
    """And nothing that an engine would take for the same."""
    assert overridden(Sampling(**asked), Sampling(**governed)) == shown


def test_a_record_keeps_what_it_is_told():
    """The ids that stop, and what was asked for instead."""
    made = record(Sampling(), max_tokens=9, stop_token_ids=(2, 3), overridden={"seed": 1}, logprobs_mode="raw")
    assert (made.stop_token_ids, made.overridden, made.logprobs_mode) == ((2, 3), {"seed": 1}, "raw")
    bare = record(Sampling(), max_tokens=9)
    assert (bare.stop_token_ids, bare.overridden, bare.logprobs_mode) == ((), {}, "unknown")


@pytest.mark.parametrize(
    ("first", "seeds"),
    [
        (None, [None, None, None]),
        (-1, [None, None, None]),
        (5, [5, 6, 7]),
        (-2, [-2, 0, 1]),
        (-3, [-3, -2, 0]),
        (2**63 - 2, [2**63 - 2, 2**63 - 1, -(2**63)]),
    ],
)
def test_the_answers_of_a_call_have_seeds_that_count_up_and_never_mean_none(first, seeds):
    """-1 is passed over; after the greatest comes the least."""
    assert [nth_seed(first, index) for index in range(3)] == seeds


@pytest.mark.parametrize(
    ("asked", "modes", "both"),
    [
        ({}, ("raw", "raw"), "raw"),
        ({"top_p": 0.5}, ("processed", "processed"), "processed"),
        ({}, ("raw", "processed"), "raw"),
        ({}, ("processed", "raw"), "raw"),
        ({"temperature": 0.5}, ("processed", "raw"), "unknown"),
        ({"allowed_token_ids": (1,)}, ("raw", "processed"), "unknown"),
        ({}, ("processed", "unknown"), "unknown"),
        ({}, ("unknown", "raw"), "unknown"),
        ({}, ("raw", "untold"), "untold"),
        ({}, ("untold", "processed"), "untold"),
        ({}, ("unknown", "untold"), "unknown"),
        ({"temperature": 0.5}, ("untold", "processed"), "unknown"),
    ],
)
def test_logprobs_of_two_engines_are_worth_what_can_be_said_of_both(asked, modes, both):
    """Where nothing shapes the logits, raw and processed are the same."""
    made = record(Sampling(**asked), max_tokens=9, logprobs_mode=modes[0])
    assert made.also(modes[1]).logprobs_mode == both


@pytest.mark.parametrize(
    ("asked", "modes"),
    [
        ({}, {"unknown"}),
        ({"temperature": 0.7}, {"processed", "raw", "untold", "unknown"}),
        ({"temperature": 0}, set()),
        ({"extra_args": {"a": 1}}, set()),
        ({"extra_args": {"a": 1}, "temperature": 0.7}, set()),
    ],
)
def test_the_exactness_of_a_turn_hangs_on_its_engine_where_the_modes_differ(asked, modes):
    """And where an engine is known to have told nothing that can be used, on what it tells the next time."""
    for mode in get_args(LogprobsMode):
        assert record(Sampling(**asked), max_tokens=9, logprobs_mode=mode).hangs_on_mode == (mode in modes)
