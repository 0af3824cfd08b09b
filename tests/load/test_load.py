"""Many streams at once, and clients that hang up: the short form of ``make load``."""

import pytest

from bench.load import Plan, loaded

pytestmark = pytest.mark.process


@pytest.mark.filterwarnings("default")  # the load counts them itself
async def test_streams_and_hang_ups_leave_nothing_behind_and_nothing_untrue() -> None:
    """No task or socket outlives forty clients, and every turn is what the engine sampled."""
    figures = await loaded(Plan(streams=40, seconds=1.0, token_delay_s=0.02))

    assert figures.faults == []
    assert figures.heard > 10
    assert figures.hung_up > 2
    assert figures.aborted > 0
