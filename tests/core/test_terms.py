"""How a session's sampling parameters meet a request's."""

from dataclasses import replace

import pytest

from gateway.core.budget import Budget
from gateway.core.sampling import said
from gateway.core.terms import Terms
from gateway.core.types import Sampling, TurnRequest


def governed(terms: Terms, asked: Sampling) -> TurnRequest:
    """A request that asked so, as the session has it."""
    return terms.governed(TurnRequest((), sampling=asked))


@pytest.mark.parametrize(
    ("defaults", "asked", "forced", "expected"),
    [
        (Sampling(), Sampling(top_k=1), Sampling(), Sampling(top_k=1)),
        (Sampling(temperature=0.5), Sampling(), Sampling(), Sampling(temperature=0.5)),
        (Sampling(temperature=0.5), Sampling(temperature=0.0), Sampling(), Sampling(temperature=0.0)),
        (Sampling(), Sampling(temperature=0.0), Sampling(temperature=1.0), Sampling(temperature=1.0)),
        (Sampling(temperature=0.5), Sampling(), Sampling(temperature=1.0), Sampling(temperature=1.0)),
        (Sampling(ignore_eos=True), Sampling(ignore_eos=False), Sampling(), Sampling(ignore_eos=False)),
        (Sampling(), Sampling(ignore_eos=True), Sampling(ignore_eos=False), Sampling(ignore_eos=False)),
        (Sampling(stop=("a",)), Sampling(), Sampling(), Sampling(stop=("a",))),
        (Sampling(stop=("a",)), Sampling(stop=("b",)), Sampling(), Sampling(stop=("b",))),
        (Sampling(stop=("a",)), Sampling(stop=()), Sampling(), Sampling(stop=("a",))),
        (Sampling(extra_args={"a": 1}), Sampling(extra_args={"b": 2}), Sampling(), Sampling(extra_args={"b": 2})),
        (Sampling(), Sampling(max_tokens=5), Sampling(min_tokens=9), Sampling(max_tokens=9, min_tokens=9)),
        (Sampling(), Sampling(max_tokens=50), Sampling(min_tokens=9), Sampling(max_tokens=50, min_tokens=9)),
        (Sampling(max_tokens=5), Sampling(), Sampling(min_tokens=9), Sampling(max_tokens=9, min_tokens=9)),
        (Sampling(), Sampling(), Sampling(min_tokens=9), Sampling(min_tokens=9)),
        (Sampling(min_tokens=9), Sampling(max_tokens=5), Sampling(), Sampling(max_tokens=5, min_tokens=5)),
        (Sampling(seed=1), Sampling(top_p=0.5), Sampling(top_k=2), Sampling(seed=1, top_p=0.5, top_k=2)),
    ],
)
def test_defaults_fill_gaps_and_what_is_forced_wins(defaults, asked, forced, expected):
    """Zero and false are said; only silence is filled. What is forced is not undone by a smaller limit."""
    assert governed(Terms(sampling=defaults, forced=forced), asked).sampling == expected


LOCKED = Sampling(temperature=1.0, top_p=1.0, top_k=0, min_p=0.0)


@pytest.mark.parametrize("asked", [Sampling(), Sampling(temperature=0.0, top_p=0.5, top_k=3, min_p=0.1, seed=1)])
def test_a_locked_session_is_sampled_at_temperature_1_with_nothing_truncated(asked):
    """Nothing wins over that, and what an agent had asked for is told."""
    terms = Terms(sampling=Sampling(top_p=0.5), forced=Sampling(temperature=0.5, max_tokens=7), sampling_rule="locked")

    request = governed(terms, asked)

    assert request.sampling == replace(LOCKED, max_tokens=7)
    assert request.overridden == said(asked)


def test_penalties_biases_and_lengths_stay_the_agents_in_a_locked_session():
    """They are heard, and nothing is told of them."""
    asked = Sampling(presence_penalty=1.0, repetition_penalty=1.1, logit_bias={"5": 2.0}, min_tokens=3, max_tokens=9)

    request = governed(Terms(sampling_rule="locked"), asked)

    assert said(request.sampling) == said(asked) | said(LOCKED)
    assert request.overridden == {}


@pytest.mark.parametrize(
    ("kept", "seed", "shown"), [("keep", 5, {}), ("drop", None, {"seed": 5}), (None, None, {"seed": 5})]
)
def test_an_agents_seed_is_kept_only_when_asked(kept, seed, shown):
    """Equal seeds make the members of a group alike; those of the harness are its own business."""
    request = governed(Terms(client_seed=kept), Sampling(seed=5))
    assert (request.sampling.seed, request.overridden) == (seed, shown)

    given = Sampling(seed=9)
    for harness in (Terms(sampling=given, client_seed="drop"), Terms(forced=given, client_seed="drop")):
        assert governed(harness, Sampling(seed=5)).sampling.seed == 9


def test_what_is_forced_is_told_where_the_agent_asked_otherwise():
    """Defaults are not: the agent did not speak."""
    terms = Terms(sampling=Sampling(top_k=3), forced=Sampling(temperature=0.5, min_tokens=9))
    request = governed(terms, Sampling(temperature=0.7, max_tokens=5))
    assert request.overridden == {"temperature": 0.7, "max_tokens": 5}


def test_a_least_length_that_a_forced_limit_cuts_is_told():
    """It is what the engine gets, too."""
    request = governed(Terms(forced=Sampling(max_tokens=5)), Sampling(min_tokens=8, max_tokens=9))
    assert (request.sampling.min_tokens, request.overridden) == (5, {"min_tokens": 8, "max_tokens": 9})


def test_terms_are_silent_on_what_the_gateway_has():
    """What they say wins, bound by bound."""
    defaults = Terms(budget=Budget(1, 2, 3), sampling_rule="locked", client_seed="keep", group_id="other")
    assert Terms().over(defaults) == replace(defaults, group_id=None)
    told = Terms(budget=Budget(max_turns=9), sampling_rule="agent", client_seed="drop")
    assert told.over(defaults) == replace(told, budget=Budget(1, 2, 9))
