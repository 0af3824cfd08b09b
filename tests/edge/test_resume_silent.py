"""An engine that is gone without a word: what it was silent in goes on elsewhere, and what still comes is left alone."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import pytest

from gateway.sim import FAULTS, create_sim
from tests.edge.house import HELLO, House, Json, OpenHouse, generated, serving, until
from tests.edge.obstacle import Obstacle
from tests.edge.pair import Pair, Told, open_pair

LONG: Json = {"ignore_eos": True, "max_tokens": 12}
INTERVAL_S = 0.1
T = TypeVar("T")


@pytest.fixture(autouse=True)
def little_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Checks that nobody answers end soon."""
    monkeypatch.setattr("gateway.edge.checks.PATIENCE_S", 0.2)
    monkeypatch.setattr("gateway.edge.checks._ASK_S", 0.2)
    monkeypatch.setattr("gateway.edge.checks._DOWN_INTERVAL_S", 0.1)


async def is_down(house: House, url: str) -> bool:
    """Whether the ranks of an engine are."""
    engines = (await house.send("GET", "/admin/engines")).body["data"]
    return {rank["health"] for engine in engines if engine["url"] == url for rank in engine["ranks"]} == {"down"}


@asynccontextmanager
async def frozen(
    house: House, url: str, obstacle: Obstacle, asking: "asyncio.Task[T]"
) -> AsyncIterator["asyncio.Task[T]"]:
    """An engine that was stopped and is found to be down, in the middle of a call that it was asked for."""
    obstacle.freeze()
    try:
        await until(lambda: is_down(house, url), within_s=5)
        yield asking
    finally:
        obstacle.thaw()
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)


@asynccontextmanager
async def frozen_home(pair: Pair, **fields: Any) -> AsyncIterator["asyncio.Task[Told]"]:
    """The same of a pair's."""
    asking = asyncio.ensure_future(pair.ask(**fields))
    await until(lambda: pair.calls)
    async with frozen(pair.house, pair.home, pair.obstacles[pair.home], asking):
        yield asking


@pytest.mark.parametrize("streams", [False, True])
@pytest.mark.parametrize("after", [0, 3])
async def test_what_an_engine_was_silent_in_when_it_is_found_to_be_down_goes_on_elsewhere(
    open_house: OpenHouse, after: int, *, streams: bool
) -> None:
    """Before its first id or after: it does not take a stall."""
    async with open_pair(open_house, health_interval_s=INTERVAL_S, resume_attempts=1) as pair:
        pair.faults.inject("stall", after=after)
        async with frozen_home(pair, streams=streams, **LONG) as asking:
            told = await asyncio.wait_for(asking, 2)
        (turn,) = await pair.turns()
        assert await pair.house.metric("gateway_cuts_total", reason="lost") == 1

    assert (told.status, turn["completion_tokens"], turn["engine"]) == (200, 12, pair.away)
    assert [(cut["position"], cut["reason"]) for cut in turn["cuts"]] == [(after, "lost")] * bool(after)


async def test_what_still_comes_from_an_engine_that_is_down_is_left_alone(open_house: OpenHouse) -> None:
    """Checks may fail for other reasons."""
    settings: Json = {"health_interval_s": INTERVAL_S, "stream_interval_tokens": 1}
    async with open_pair(open_house, sim={"token_delay_s": 0.02}, **settings) as pair:
        async with frozen_home(pair, streams=True, ignore_eos=True, max_tokens=100) as asking:
            told = await asyncio.wait_for(asking, 10)
        (turn,) = await pair.turns()

    assert (told.status, turn["engine"], turn["cuts"]) == (200, pair.home, [])


async def test_without_attempts_nothing_is_interrupted(open_house: OpenHouse) -> None:
    """As it was before anything was carried on."""
    async with open_pair(open_house, health_interval_s=INTERVAL_S, resume_attempts=0) as pair:
        pair.faults.inject("stall", after=0)
        async with frozen_home(pair, streams=False, **LONG) as asking:
            await asyncio.sleep(5 * INTERVAL_S)
            assert not asking.done()


async def test_what_the_only_engine_has_forgotten_is_asked_of_it_again_when_it_is_back(open_house: OpenHouse) -> None:
    """Until then the call is left to it, since there is nowhere else to go."""
    sim = create_sim()
    obstacle = Obstacle(sim)
    async with serving(sim) as server:
        url = str(server.make_url("")).rstrip("/")
        house = await open_house(engine=(url,), resume_attempts=5, health_interval_s=INTERVAL_S)
        sim[FAULTS].inject("stall", after=0)
        asking = asyncio.ensure_future(house.ask("s", HELLO, **LONG))
        await until(lambda: generated(sim))
        async with frozen(house, url, obstacle, asking):
            await asyncio.sleep(3 * INTERVAL_S)
            assert not asking.done()
            assert len(generated(sim)) == 1
            obstacle.thaw()
            answer = await asyncio.wait_for(asking, 5)
        assert answer.status == 200
        assert len(generated(sim)) == 2
