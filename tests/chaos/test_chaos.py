"""Engines that die, stall and lie down before agents that notice nothing: the short form of ``make chaos``."""

import pytest

from tests.chaos.figures import Plan
from tests.chaos.trial import endured

pytestmark = pytest.mark.process


async def test_no_agent_notices_what_befalls_engines_while_another_lives() -> None:
    """And what is recorded is, id by id, what they said between them: what one of them would have said alone."""
    figures = await endured(Plan(disorders=25, clients=16, token_delay_s=0.004, rest_s=0.05, limit_s=40.0, seed=1))

    assert figures.seen == []
    assert figures.faults == []
    assert figures.cuts.total() > 10
