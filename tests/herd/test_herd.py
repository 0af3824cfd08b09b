"""What is held and let go, and what comes and goes, in short; ``make herd`` has the numbers."""

from dataclasses import replace

import pytest

from tests.herd import churn, holds
from tests.herd.trial import LEASED, LONG, SHORT, faults_of

pytestmark = pytest.mark.process

PLANS = {
    "held": replace(SHORT, hold_s=2.0),
    "leased": replace(LEASED, hold_s=1.0, lease_s=1.0),
    "herd": replace(LONG, calls=120, prompt_tokens=4000, hold_s=1.0, rank_prefill_tokens=16_000),
}


@pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS)
async def test_held_calls_wait_and_are_let_go_no_faster_than_ranks_can_read(plan: holds.Plan) -> None:
    """None fails, none comes to an engine before, and none waits for a trainer that is dead."""
    figures = await holds.held(plan)

    assert faults_of(figures, plan) == []


async def test_engines_that_come_and_go_leave_nothing_behind() -> None:
    """No task, no socket, no metric, and nothing that remembers them."""
    figures = await churn.churned(churn.Plan(changes=60, every=20, clients=4))

    assert figures.faults == []
    assert figures.elsewhere > 0
