"""Sessions and the ranks that serve them, in short; ``make affinity`` has two hundred sessions of twenty turns."""

from dataclasses import replace

import pytest

from tests.affinity.trial import crowded, faults_of, growing, measured, staying

pytestmark = pytest.mark.process


async def test_sessions_stay_on_their_ranks_and_little_is_prefilled_twice() -> None:
    """All ranks are used alike."""
    plan = staying(sessions=24, turns=6)
    figures = await measured(plan)

    assert faults_of(figures, plan) == []
    assert sorted(figures.per_rank.values()) == [6, 6, 6, 6]


async def test_a_drained_rank_gets_nothing_new_and_its_sessions_move_once() -> None:
    """Nobody else moves, and the gateway counts what moved."""
    plan = replace(staying(sessions=24, turns=6), drains=True)
    figures = await measured(plan)

    assert faults_of(figures, plan) == []
    assert figures.homes_drained > 0


async def test_sessions_that_do_not_fit_wait_before_they_thrash() -> None:
    """At three times the caches most of each prompt is still found there; without admission almost nothing is."""
    plan = crowded(sessions=20, turns=16)
    admitted, not_admitted = await measured(plan), await measured(replace(plan, resident_share=None))

    assert faults_of(admitted, plan) == []
    assert not_admitted.failed == []
    assert not_admitted.hit_share < 0.5


async def test_sessions_that_grow_are_admitted_by_what_those_before_them_came_to() -> None:
    """They would fit as they come, and thrash as they go on."""
    plan = replace(growing(sessions=20, turns=16), opening_words=400)
    admitted, not_admitted = await measured(plan), await measured(replace(plan, resident_share=None))

    assert faults_of(admitted, plan) == []
    assert not_admitted.failed == []
    assert not_admitted.hit_share < 0.5
