"""How a session's sampling parameters meet a request's."""

import pytest

from gateway.core.terms import Terms, said
from gateway.core.types import Sampling


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
        (Sampling(min_tokens=9), Sampling(max_tokens=5), Sampling(), Sampling(max_tokens=5, min_tokens=9)),
        (Sampling(seed=1), Sampling(top_p=0.5), Sampling(top_k=2), Sampling(seed=1, top_p=0.5, top_k=2)),
    ],
)
def test_defaults_fill_gaps_and_what_is_forced_wins(defaults, asked, forced, expected):
    """Zero and false are said; only silence is filled. What is forced is not undone by a smaller limit."""
    assert Terms(sampling=defaults, forced=forced).applied(asked) == expected


def test_what_is_said_is_named():
    """Silence is not."""
    assert said(Sampling()) == {}
    assert said(Sampling(temperature=0, ignore_eos=False, stop=("a",))) == {
        "temperature": 0,
        "ignore_eos": False,
        "stop": ("a",),
    }
