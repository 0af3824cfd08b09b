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
        (Sampling(seed=1), Sampling(top_p=0.5), Sampling(top_k=2), Sampling(seed=1, top_p=0.5, top_k=2)),
    ],
)
def test_defaults_fill_gaps_and_what_is_forced_wins(defaults, asked, forced, expected):
    """Zero and false are said; only silence is filled."""
    assert Terms(sampling=defaults, forced=forced).applied(asked) == expected


def test_what_is_said_is_named():
    """Silence is not."""
    assert said(Sampling()) == {}
    assert said(Sampling(temperature=0, ignore_eos=False, stop=("a",))) == {
        "temperature": 0,
        "ignore_eos": False,
        "stop": ("a",),
    }
