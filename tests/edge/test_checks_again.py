"""What is found out of engines again and again, since it may be otherwise by now, or was not said in time."""

import asyncio

import pytest
from aiohttp import web
from aiohttp.test_utils import unused_port

from gateway.core.health import Health
from gateway.core.pool import Affinity, Bounds, Demand
from gateway.edge.backends import Backends
from gateway.edge.engine import Engine
from gateway.edge.metrics import Metrics
from tests.edge.house import HELLO, Answer, OpenHouse, generated, serving, until
from tests.edge.wild import CONFIGURATION, GENERATE, METRICS, MODELS, answers, cut, serves, slow, url_of, wild


async def test_ranks_that_were_not_said_in_time_are_asked_for_again() -> None:
    """A busy engine counts as one rank until it says, and keeps the number that was known when it is admitted again."""
    app, hooks = wild(ranks=3)
    hooks.update({path: slow(3600) for path in (METRICS, CONFIGURATION, GENERATE)})
    async with serving(app) as server:
        engine = Engine(url_of(server))
        backends = Backends([engine], Metrics(), prompt=[1, 2, 3])
        await backends.checks.ask(engine)
        assert [rank.number for rank in backends.ranks] == [0]
        assert backends.ranks[0].serves
        hooks.clear()
        await backends.checks.ask(engine)
        assert [rank.number for rank in backends.ranks] == [0, 1, 2]
        hooks.update({path: slow(3600) for path in (METRICS, CONFIGURATION, GENERATE, "/version")})
        engine.doubt()
        await backends.checks.ask(engine)
        assert [rank.serves for rank in backends.ranks] == [True] * 3
        assert (engine.is_known, engine.version) == (True, (0, 32))
        await backends.close()


async def test_models_that_are_loaded_later_are_found(open_house: OpenHouse) -> None:
    """And so is another context; turns for them go where they are."""
    (one, _), (two, hooks) = wild(model="base"), wild(model="adapter")
    hooks[MODELS] = serves("base")
    async with serving(one) as first, serving(two) as second:
        house = await open_house(engine=(url_of(first), url_of(second)), health_interval_s=0.05)
        hooks[MODELS] = serves("base", "adapter", window=99)

        async def is_found() -> bool:
            shown = (await house.call("GET", "/admin/engines")).body["data"][1]
            return (shown["models"], shown["window"]) == (["adapter", "base"], 99)

        await until(is_found)
        for at in range(5):
            assert (await house.ask(f"s{at}", HELLO, [1, 151645], model="adapter")).status == 200
        assert len(generated(two)) == 5


async def test_an_engine_that_is_slow_to_answer_comes_back_after_a_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is asked as patiently as one in service; turns go nowhere before it has answered, and then there."""
    monkeypatch.setattr("gateway.edge.checks._ASK_S", 0.01)
    app, hooks = wild()
    async with serving(app) as server:
        engine = Engine(url_of(server))
        backends = Backends([engine], Metrics(), prompt=[1, 2, 3])
        await backends.refresh()
        hooks[MODELS] = slow(0.3)
        engine.doubt()
        async with backends.lease(Affinity("s"), Demand(1)) as lease:
            assert (lease.rank.health, engine.is_known) == (Health(), True)
        await backends.close()


async def test_a_doubted_engine_gets_no_turn_before_it_has_answered(open_house: OpenHouse) -> None:
    """However many turns come while it is asked, and whatever else it answers meanwhile."""
    app, hooks = wild()
    seen: list[str] = []

    async def models(_request: web.Request) -> None:
        await asyncio.sleep(0.3)
        seen.append("answered")

    async def turn(request: web.Request) -> None:
        if not request.headers["X-Request-Id"].startswith("probe"):
            seen.append("turn")

    async with serving(app) as server:
        house = await open_house(engine=(url_of(server),), health_interval_s=60, resume_attempts=0)
        assert (await house.ask("s", HELLO, [1, 151645])).status == 200
        hooks.update({MODELS: models, GENERATE: cut})
        assert (await house.ask("s", HELLO, [1, 151645])).status == 503
        hooks[GENERATE] = turn
        first = asyncio.ensure_future(house.ask("t", HELLO, [1, 151645]))
        await asyncio.sleep(0.1)
        others = [house.ask(f"u{at}", HELLO, [1, 151645]) for at in range(3)]
        assert [answer.status for answer in await asyncio.gather(first, *others)] == [200] * 4
        assert seen == ["answered", *["turn"] * 4]


async def test_doubts_are_dispelled_by_what_was_asked_after_them_only() -> None:
    """A call that breaks off while the engine is asked may have been another one's."""
    app, hooks = wild()
    async with serving(app) as server:
        engine = Engine(url_of(server))
        assert await engine.refresh()
        hooks[METRICS] = cut
        assert await engine.told("/metrics", limit_s=1) is None
        assert engine.is_known
        hooks[MODELS] = slow(0.2)
        asked = asyncio.ensure_future(engine.refresh())
        await asyncio.sleep(0.05)
        engine.doubt()
        assert await asked
        assert engine.doubted
        assert await engine.is_there(1)
        assert engine.doubted
        assert await engine.refresh()
        assert engine.is_known
        await engine.close()


async def test_a_drained_engine_is_drained_whatever_it_is_when_it_comes_back() -> None:
    """With all ranks that it has then, but for one that was given turns again."""
    port = unused_port()
    engine = Engine(f"http://127.0.0.1:{port}")
    backends = Backends([engine], Metrics(), bounds=Bounds(), prompt=[1, 2, 3])
    async with serving(wild()[0], port=port):
        await backends.refresh()
        backends.drain_engine(engine, draining=True)
        assert (backends.serves, len(backends.known())) == (False, 1)
    await backends.checks.ask(engine)
    assert backends.known() == {}
    async with serving(wild(ranks=4)[0], port=port):
        await backends.checks.ask(engine)
        assert [rank.draining for rank in backends.ranks] == [True] * 4
        backends.drain(backends.ranks[2], draining=False)
        for ranks in (1, 4):
            engine.ranks = ranks
            backends.renumber(engine)
        assert [rank.draining for rank in backends.ranks] == [True, True, False, True]
        backends.drain_engine(engine, draining=False)
        assert [rank.serves for rank in backends.ranks] == [True] * 4
    await backends.close()


async def test_a_rank_that_breaks_off_each_turn_after_its_first_id_goes_down() -> None:
    """Only what ends well makes up for failures."""
    app, hooks = wild()
    async with serving(app) as server:
        backends = Backends([Engine(url_of(server))], Metrics(), prompt=[1, 2, 3])
        await backends.refresh()
        hooks[GENERATE] = answers(500)
        for failures in (1, 2, 3):
            async with backends.lease(Affinity("s"), Demand(1)) as lease:
                lease.heard()
                lease.cached(9)
                lease.failed()
            assert backends.ranks[0].health.failures == failures
        assert backends.ranks[0].health.state == "down"
        await backends.close()


async def test_a_rank_whose_engine_was_not_asked_yet_may_be_named(open_house: OpenHouse) -> None:
    """It is asked first; while it does not answer nobody knows, and what it has not is refused for good."""
    port = unused_port()
    async with serving(wild()[0]) as small:
        house = await open_house(engine=(url_of(small), f"http://127.0.0.1:{port}"), health_interval_s=3600)

        async def asked(number: str) -> Answer:
            return await house.ask("s", HELLO, [1, 151645], headers={"X-data-parallel-rank": number})

        refused = await asked("2")
        assert (refused.status, refused.error["code"]) == (503, "engine_unavailable")
        assert int(refused.headers["Retry-After"]) >= 1
        large, _ = wild(ranks=3)
        async with serving(large, port=port):
            assert (await asked("2")).status == 200
            assert [entry.headers["x-data-parallel-rank"] for entry in generated(large)] == ["2"]
            assert (await asked("3")).status == 400


async def test_a_prompt_that_only_an_engine_holds_that_is_away_is_not_refused_for_good(open_house: OpenHouse) -> None:
    """503 while that is down or drained, 400 once it is none of ours; others take what they hold."""
    (large, hooks), (small, _) = wild(), wild(max_model_len=64)
    long = [{"role": "user", "content": "word " * 200}]
    async with serving(large) as first, serving(small) as second:
        house = await open_house(engine=(url_of(first), url_of(second)), health_interval_s=0.05)
        assert (await house.ask("s", long, [1, 151645])).status == 200
        hooks.update({MODELS: answers(503), METRICS: answers(503)})

        async def is_away() -> bool:
            return not (await house.call("GET", "/admin/engines")).body["data"][0]["answers"]

        await until(is_away)
        refused = await house.ask("s", long, [1, 151645])
        assert (refused.status, "Retry-After" in refused.headers) == (503, True)
        assert (await house.ask("t", HELLO, [1, 151645])).status == 200
        hooks.clear()

        async def is_answered() -> bool:
            return (await house.ask("s", long, [1, 151645])).status == 200

        await until(is_answered)
        await house.send("POST", "/admin/engines", url=url_of(first), draining=True)
        assert (await house.ask("s", long, [1, 151645])).status == 503
        await house.send("DELETE", "/admin/engines", url=url_of(first))
        assert (await house.ask("s", long, [1, 151645])).status == 400


async def test_more_answers_than_can_ever_be_had_are_refused_for_good(open_house: OpenHouse) -> None:
    """As many as may have the session's rank and wait for it are given."""
    house = await open_house(rank_turns=2, queue_turns=1)
    assert (await house.ask("s", HELLO, [1, 151645], n=3)).status == 200
    refused = await house.ask("s", HELLO, [1, 151645], n=4)
    assert (refused.status, refused.error["param"]) == (400, "n")
