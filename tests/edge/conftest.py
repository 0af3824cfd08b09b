"""Gateways with simulated engines, and one with a small context."""

from collections.abc import AsyncIterator

import pytest

from tests.edge.house import House, OpenHouse
from tests.houses import house, loaded_once, open_house, renderers, words

__all__ = ["house", "loaded_once", "open_house", "renderers", "small", "words"]


@pytest.fixture(autouse=True)
def short_probes(monkeypatch: pytest.MonkeyPatch) -> None:
    """An engine that answers nobody is idle soon after its start, so that tests need not wait for its probe."""
    monkeypatch.setattr("gateway.edge.probe.PATIENCE_S", 1.0)


@pytest.fixture
async def small(open_house: OpenHouse) -> AsyncIterator[House]:
    """A gateway with a small context, that has warmed up."""
    house = await open_house(max_body_bytes=32 << 20, sim={"max_model_len": 16384})
    assert (await house.ask("warm")).status == 200
    yield house
    assert (await house.ask("after")).status == 200
