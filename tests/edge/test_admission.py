"""Between how many ranks of an engine a turn can choose is found out, whatever it shows of itself."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from aiohttp import web
from structlog.testing import capture_logs

from gateway.edge.admission import by_rank, count_ranks
from gateway.edge.engine import Engine
from gateway.sim import create_sim
from gateway.wire.engine_facts import RankFacts
from tests.edge.house import OpenHouse, generated, probes, serving

METRICS, CONFIGURATION, GENERATE = "/metrics", "/server_info", "/inference/v1/generate"


def hiding(*paths: str, silent: bool = False, **sim: Any) -> web.Application:
    """An engine that has no such paths, or says nothing there."""

    @web.middleware
    async def hide(request: web.Request, handler: Any) -> web.StreamResponse:
        if request.path in paths:
            if silent:
                await asyncio.sleep(3600)
            raise web.HTTPNotFound
        response: web.StreamResponse = await handler(request)
        return response

    app = create_sim(**sim)
    app.middlewares.insert(0, hide)
    return app


async def counted(app: web.Application, told: str = "") -> Engine:
    """An engine that has been asked for its ranks."""
    async with serving(app) as server:
        engine = Engine(f"{str(server.make_url('')).rstrip('/')}{told}")
        assert await engine.refresh()
        await count_ranks(engine, [1, 2, 3])
        assert not engine.doubted
        await engine.close()
    return engine


@pytest.mark.parametrize("hidden", [(), (CONFIGURATION,), (METRICS,), (CONFIGURATION, METRICS)])
async def test_the_ranks_of_an_engine_are_found_out(hidden: Sequence[str]) -> None:
    """By its configuration, its metrics, or what it says to a rank that it has not; nothing is sampled for that."""
    app = hiding(*hidden, ranks=3)
    assert (await counted(app)).ranks == 3
    assert generated(app) == []
    assert sum(len(entry.emitted) for entry in probes(app)) == 0


async def test_what_the_operator_says_counts_first() -> None:
    """Though it can be seen to be otherwise, which `gateway check` says."""
    assert (await counted(create_sim(ranks=3), "#dp=2")).ranks == 2


@pytest.mark.parametrize("hidden", [(), (CONFIGURATION, METRICS), (CONFIGURATION, METRICS, GENERATE)])
async def test_an_engine_that_does_not_tell_is_one_rank(hidden: Sequence[str]) -> None:
    """As most are."""
    assert (await counted(hiding(*hidden, ranks=1))).ranks == 1
    assert (await counted(hiding(*hidden, GENERATE, METRICS, CONFIGURATION, ranks=3))).ranks == 1


async def test_an_engine_that_answers_none_of_it_holds_nobody_up() -> None:
    """All questions together take less than a second."""
    async with asyncio.timeout(1.5):
        engine = await counted(hiding(CONFIGURATION, METRICS, GENERATE, silent=True, ranks=3))
    assert engine.ranks == 1


@pytest.mark.parametrize(
    ("version", "ranks", "told", "warned"),
    [("0.21.0", 2, "", True), ("0.20.2", 2, "#dp=2", True), ("0.20.2", 1, "#dp=2", True), ("0.20.2", 1, "", False)],
)
async def test_ranks_that_cannot_be_chosen_count_as_one(version: str, ranks: int, told: str, warned: bool) -> None:
    """Before vLLM 0.22 the header is ignored; where that loses something it is said, with a remedy."""
    with capture_logs() as lines:
        engine = await counted(create_sim(version=version, ranks=ranks), told)
    assert engine.ranks == 1
    said = [line for line in lines if line["event"] == "X-data-parallel-rank is ignored before vLLM 0.22"]
    assert [line["log_level"] for line in said] == ["warning"] * warned
    assert all("URL of its own" in line["remedy"] for line in said)


def test_facts_are_of_ranks_in_their_order() -> None:
    """Where there are fewer than ranks the rest is not known; where one rank stands for several they are added up."""
    one, two = RankFacts(running=1), RankFacts(running=2)
    assert list(by_rank([one, two], 2)) == [one, two]
    assert list(by_rank([one], 2)) == [one, None]
    assert list(by_rank([], 2)) == [None, None]
    assert list(by_rank([], 1)) == [None]
    assert list(by_rank([one, two], 1)) == [RankFacts(running=3)]


async def test_turns_go_to_the_ranks_that_were_found(open_house: OpenHouse) -> None:
    """Without a word of the operator's about them; an engine of one rank is told none."""
    house = await open_house(sim={"ranks": 2})
    await asyncio.gather(*(house.ask(f"s{at}") for at in range(8)))
    assert {entry.headers["x-data-parallel-rank"] for entry in house.journal} == {"0", "1"}
    alone = await open_house()
    await alone.ask("s")
    assert "x-data-parallel-rank" not in alone.journal[0].headers
