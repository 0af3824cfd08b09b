"""The gap of some ids is what its figures say, however the ids are divided among rows."""

import math
from random import Random

import pytest

from gateway.audit.gap import Gap, gap_of


def test_figures_are_those_of_the_differences():
    """Mean and largest are of absolute differences, and the place is that of the first largest."""
    gap = gap_of("r", [(4, -1.0, -1.0), (5, -1.0, -1.5), (9, -2.0, -1.5)])

    assert (gap.tokens, gap.mean_nats, gap.max_nats, gap.max_at) == (3, 1 / 3, 0.5, ("r", 5))
    assert gap.kl_nats == pytest.approx((math.exp(-0.5) - 0.5 + math.exp(0.5) - 1.5) / 3)


def test_no_gap_has_no_place_and_no_ids_have_no_figures():
    """Nothing is not zero."""
    assert gap_of("r", [(1, -1.0, -1.0)]) == Gap(1)
    assert (Gap().mean_nats, Gap().kl_nats) == (None, None)


def test_gaps_of_rows_add_up_to_that_of_all():
    """In any order but for the first of equal largest ones."""
    random = Random(1)
    ids = [(at, -random.random(), -random.random()) for at in range(100)]
    parts = gap_of("r", ids[:30]).with_others(gap_of("r", ids[30:]))
    whole = gap_of("r", ids)

    assert (parts.tokens, parts.max_nats, parts.max_at) == (whole.tokens, whole.max_nats, whole.max_at)
    assert parts.sum_nats == pytest.approx(whole.sum_nats)
    assert parts.sum_kl_nats == pytest.approx(whole.sum_kl_nats)


def test_the_estimate_is_the_divergence_of_what_sampled_from_what_scored():
    """Ids drawn from one distribution and scored with another."""
    sampled, scored, random = [0.5, 0.3, 0.2], [0.4, 0.4, 0.2], Random(1)
    drawn = random.choices(range(3), sampled, k=100_000)
    gap = gap_of("r", ((at, math.log(sampled[one]), math.log(scored[one])) for at, one in enumerate(drawn)))

    exact = sum(p * math.log(p / q) for p, q in zip(sampled, scored, strict=True))
    assert gap.kl_nats == pytest.approx(exact, rel=0.05)


def test_what_no_float_can_hold_is_very_large():
    """A logprob that is next to minus infinity."""
    assert gap_of("r", [(0, -9000.0, 0.0)]).sum_kl_nats > 1e300


def test_what_is_no_number_is_a_gap_beyond_all_others_and_has_its_place():
    """Whichever of the two it is."""
    for sampled in (math.nan, math.inf, -math.inf):
        gap = gap_of("r", [(3, -1.0, -2.0), (4, sampled, -1.0)])
        assert (gap.max_nats, gap.max_at, gap.sum_kl_nats) == (math.inf, ("r", 4), math.inf)
