"""While turns are held nothing is sampled beside them either."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from gateway.sim import JOURNAL, create_sim
from tests.edge.house import HELLO, House, OpenHouse, serving, until, waiting
from tests.edge.test_pause import admin

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
REST_S = 0.1
"""How long an engine is left alone after a probe that failed."""


async def test_what_samples_beside_turns_waits_for_the_gate_as_they_do(open_house: OpenHouse) -> None:
    """An engine that comes back during a drain is not asked for tokens; when turns go on it is, at once."""
    sim = create_sim()
    async with serving(sim) as server:
        port = server.port
        house = await open_house(engine=(_url(server),), health_interval_s=0.2)
    await until(lambda: _ranks_are(house, "down"), within_s=5)
    await admin(house, "pause", mode="drain")
    sim = create_sim()
    async with serving(sim, port=port):
        await until(lambda: _ranks_are(house, "probing"), within_s=5)
        async with waiting(house, "s") as call:
            await asyncio.sleep(0.5)
            assert (sim[JOURNAL].entries, call.done()) == ([], False)
            await admin(house, "resume")
            await until(lambda: _ranks_are(house, "up"), within_s=1)
            assert (await call).status == 200


async def test_a_turn_that_must_know_the_logprobs_waits_for_the_gate_when_they_cannot_be_asked(
    open_house: OpenHouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It had its rank when the pause began, which waits for the probe under way; the turn does not fail for it."""
    sim, told, probed = create_sim(logprobs_mode="processed_logprobs"), asyncio.Event(), list[str]()

    @web.middleware
    async def late(request: web.Request, handler: Handler) -> web.StreamResponse:
        if not told.is_set() and request.headers.get("X-Request-Id", "").startswith("probe-"):
            probed.append(request.path)
            await told.wait()
            return web.Response(status=503)
        return await handler(request)

    sim.middlewares.append(late)
    monkeypatch.setattr("gateway.edge.probe._FIRST_PAUSE_S", REST_S)
    async with serving(sim) as server:
        house = await open_house(engine=(_url(server),), logprobs="require-exact")
        async with waiting(house, "s", HELLO, top_p=0.9, max_tokens=3) as call:
            await until(lambda: probed)
            await until(lambda: _hold_a_rank(house, 1))
            draining = asyncio.ensure_future(admin(house, "pause", mode="drain"))
            await asyncio.sleep(0.1)
            assert not draining.done()
            told.set()
            assert (await draining).status == 200
            await asyncio.sleep(2 * REST_S)
            assert not sim[JOURNAL].entries
            await admin(house, "resume")
            assert (await call).status == 200


async def test_a_call_under_way_is_not_cut_since_its_engine_may_not_be_asked_for_its_logprobs(
    open_house: OpenHouse,
) -> None:
    """It was sound when it went out; that its engine is asked anew what it is says nothing against it."""
    sim, come, told = create_sim(logprobs_mode="processed_logprobs"), asyncio.Event(), asyncio.Event()

    @web.middleware
    async def late(request: web.Request, handler: Handler) -> web.StreamResponse:
        if request.path.endswith("/generate") and not request.headers.get("X-Request-Id", "").startswith("probe-"):
            come.set()
            await told.wait()
        return await handler(request)

    sim.middlewares.append(late)
    async with serving(sim) as server:
        house = await open_house(engine=(_url(server),), logprobs="require-exact", resume_attempts=5)
        async with waiting(house, "s", HELLO, top_p=0.9, max_tokens=3) as call:
            await until(come.is_set)
            await admin(house, "pause", mode="hold")
            await house.send("POST", "/admin/engines", url=f"{_url(server)}#dp=1")
            told.set()
            assert (await call).status == 200
        assert await house.metric("gateway_cuts_total") == 0


async def test_a_drain_that_stands_is_in_place_though_an_engine_is_asked_meanwhile_what_it_is(
    open_house: OpenHouse,
) -> None:
    """Nothing is sampled for that, and so it is not waited for."""
    slow, away, sims = asyncio.Event(), asyncio.Event(), [create_sim(), create_sim()]

    @web.middleware
    async def pauses_late(request: web.Request, handler: Handler) -> web.StreamResponse:
        if request.path == "/pause":
            away.clear()
            await slow.wait()
        return await handler(request)

    @web.middleware
    async def comes_back(request: web.Request, handler: Handler) -> web.StreamResponse:
        if away.is_set() and request.transport:
            request.transport.abort()
        if request.path == "/server_info":
            slow.set()
            await asyncio.sleep(1.0)
        return await handler(request)

    sims[0].middlewares.append(pauses_late)
    sims[1].middlewares.append(comes_back)
    away.set()
    async with serving(sims[0]) as one, serving(sims[1]) as two:
        house = await open_house(engine=(_url(one), _url(two)), engine_control=True, health_interval_s=0.2)
        slow.clear()
        began_s = asyncio.get_running_loop().time()
        drained = await admin(house, "pause", mode="drain", lease_s=60)
        assert (drained.status, drained.body["in_flight"]) == (200, 0)
        assert slow.is_set()
        assert asyncio.get_running_loop().time() - began_s < 1.0


def _url(server: TestServer) -> str:
    return str(server.make_url("")).rstrip("/")


async def _ranks_are(house: House, health: str) -> bool:
    (engine,) = (await house.call("GET", "/admin/engines")).body["data"]
    return {rank["health"] for rank in engine["ranks"]} == {health}


async def _hold_a_rank(house: House, turns: int) -> bool:
    (engine,) = (await house.call("GET", "/admin/engines")).body["data"]
    return [rank["in_flight"] for rank in engine["ranks"]] == [turns]
