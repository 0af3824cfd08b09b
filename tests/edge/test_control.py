"""Engines that the gateway pauses itself: each is paused with the gate, and none is left so behind."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from gateway.sim import JOURNAL, create_sim
from gateway.sim.keys import CONTROL
from tests.edge.house import HELLO, Application, House, OpenHouse, Words, serving, until, waiting
from tests.edge.obstacle import Obstacle
from tests.edge.test_pause import admin, state

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
LONG = "It is a long answer."


def _url(server: TestServer) -> str:
    return str(server.make_url("")).rstrip("/")


def _answering(
    sim: Application, path: str, delay_s: float = 0.0, refuses: Callable[[], bool] = lambda: False
) -> list[str]:
    """Have an engine be late on one path, or refuse it; what it was asked there, as it comes."""
    asked: list[str] = []

    @web.middleware
    async def middleware(request: web.Request, handler: Handler) -> web.StreamResponse:
        if request.path != path:
            return await handler(request)
        asked.append(request.query_string)
        answer = web.Response(status=500) if refuses() else await handler(request)
        await asyncio.sleep(delay_s)
        return answer

    sim.middlewares.append(middleware)
    return asked


@asynccontextmanager
async def _somebody_elses(url: str) -> AsyncIterator[None]:
    """A call to an engine that is none of ours, for as long as the block lasts, at most for ten seconds."""
    sampling = {"max_tokens": 500, "min_tokens": 500, "ignore_eos": True, "logprobs": 1}
    body = {"token_ids": [1, 2, 3], "sampling_params": sampling, "stream": True}
    async with aiohttp.ClientSession() as http, http.post(f"{url}/inference/v1/generate", json=body):
        yield


@pytest.mark.parametrize(("mode", "frozen"), [("hold", True), ("drain", False), ("cut", False)])
async def test_engines_under_control_are_paused_with_the_gate_and_resumed_before_it(
    open_house: OpenHouse, words: Words, mode: str, frozen: bool
) -> None:
    """By the mode that does alike, and also where the lease runs out."""
    house = await open_house(engine_control=True)
    control = house.sim[CONTROL]
    for release in ("resume", "lease"):
        paused = await admin(house, "pause", mode=mode, lease_s=60 if release == "resume" else 0.3)
        assert paused.status == 200
        assert (control.paused, not control.stepping.is_set()) == (True, frozen)
        if release == "resume":
            await admin(house, "resume")
            assert not control.paused
        assert (await house.ask("s", HELLO, words.said("Yes."))).status == 200
        assert not control.paused


async def test_an_engine_that_knows_no_pauses_makes_a_pause_fail_and_undoes_it(open_house: OpenHouse) -> None:
    """The answer names it, with the remedy; others that had been paused go on. One that is away is but told of."""
    sim, plain = create_sim(), web.Application()
    plain.router.add_get("/v1/models", _models)
    async with serving(sim) as one, serving(plain) as other:
        urls = [str(server.make_url("")).rstrip("/") for server in (one, other)]
        house = await open_house(engine=urls, engine_control=True)
        refused = await admin(house, "pause", mode="hold")
        assert (refused.status, refused.error["code"]) == (502, "engine_not_paused")
        assert urls[1] in refused.error["message"]
        assert "VLLM_SERVER_DEV_MODE=1" in refused.error["message"]
        assert not sim[CONTROL].paused
        assert (await state(house))["paused"] is None
        await other.close()
        paused = await admin(house, "pause", mode="hold")
        assert (paused.status, sim[CONTROL].paused) == (200, True)
        assert urls[1] in paused.body["warnings"][-1]


async def _models(_request: web.Request) -> web.Response:
    return web.json_response({"data": [{"id": "m", "max_model_len": 4096}]})


@pytest.mark.parametrize("mode", ["hold", "drain"])
async def test_an_engine_that_was_told_to_pause_goes_on_at_the_end_whatever_it_answered(
    open_house: OpenHouse, words: Words, mode: str
) -> None:
    """Its answer may be late, or be lost: it was told, and may have done so. Nobody waits for it, when it is over."""
    sim = create_sim()
    _answering(sim, "/pause", delay_s=60)
    async with serving(sim) as server:
        house = await open_house(engine=(_url(server),), engine_control=True)
        for lease_s in (60, 0.3):
            pausing = asyncio.ensure_future(admin(house, "pause", mode=mode, lease_s=lease_s))
            await until(lambda: sim[CONTROL].paused)
            began_s = time.monotonic()
            if lease_s == 60:
                await admin(house, "resume")
            assert (await pausing).error["code"] == "pause_ended"
            await until(lambda: not sim[CONTROL].paused)
            assert time.monotonic() - began_s < 1
            assert (await house.ask("s", HELLO, words.said("Yes."))).status == 200


async def test_no_engine_is_left_paused_that_has_not_answered_when_the_gateway_ends(open_house: OpenHouse) -> None:
    """It waits for somebody else's call, and the gateway for it."""
    sim = create_sim(token_delay_s=0.02)
    async with serving(sim) as server, _somebody_elses(_url(server)):
        house = await open_house(engine=(_url(server),), engine_control=True)
        draining = asyncio.ensure_future(admin(house, "pause", mode="drain"))
        await until(lambda: sim[CONTROL].paused)
        await house.http.server.close()
        await asyncio.gather(draining, return_exceptions=True)
        assert not sim[CONTROL].paused


async def test_an_engine_that_comes_paused_is_told_to_go_on_if_no_pause_is_in_force(
    open_house: OpenHouse, words: Words
) -> None:
    """A gateway that is no more had paused it, say: at the start, when it is added, and when somebody resumes."""
    sims = [create_sim(), create_sim()]
    for sim in sims:
        await sim[CONTROL].pause("wait")
    async with serving(sims[0]) as one, serving(sims[1]) as other:
        house = await open_house(engine=(_url(one),), engine_control=True)
        await until(lambda: not sims[0][CONTROL].paused)
        await house.send("POST", "/admin/engines", url=_url(other))
        await until(lambda: not sims[1][CONTROL].paused)
        await sims[0][CONTROL].pause("wait")
        await admin(house, "resume")
        assert not sims[0][CONTROL].paused
        assert (await house.ask("s", HELLO, words.said("Yes."))).status == 200


@pytest.mark.parametrize("mode", ["hold", "drain", "cut"])
async def test_an_engine_that_comes_or_goes_during_a_pause_is_paused_or_resumed(
    open_house: OpenHouse, mode: str
) -> None:
    """One that is added; and one that is removed, before its connections are closed."""
    sims = [create_sim(), create_sim()]
    async with serving(sims[0]) as one, serving(sims[1]) as other:
        house = await open_house(engine=(_url(one),), engine_control=True)
        await admin(house, "pause", mode=mode)
        await house.send("POST", "/admin/engines", url=_url(other))
        await until(lambda: sims[1][CONTROL].paused)
        await house.send("DELETE", f"/admin/engines?url={_url(one)}")
        assert [sim[CONTROL].paused for sim in sims] == [False, True]
        await admin(house, "resume")
        assert not sims[1][CONTROL].paused


async def test_what_a_hold_has_frozen_comes_to_its_end_when_it_becomes_a_drain(
    open_house: OpenHouse, words: Words
) -> None:
    """Its owner's, that is: what another's hold has frozen stays so until that ends."""
    house = await open_house(engine_control=True, sim={"token_delay_s": 0.01})
    control = house.sim[CONTROL]
    async with waiting(house, "s", HELLO, words.said(LONG)) as call:
        await until(lambda: house.sim[JOURNAL].running)
        await admin(house, "pause", mode="hold", owner="a")
        other = asyncio.ensure_future(admin(house, "pause", mode="drain", owner="b"))
        await asyncio.sleep(0.1)
        assert (control.stepping.is_set(), other.done()) == (False, False)
        drained = await admin(house, "pause", mode="drain", owner="a")
        assert (drained.status, drained.body["in_flight"], (await other).status) == (200, 0, 200)
        assert (await call).status == 200
        assert control.paused


async def test_a_pause_that_is_refused_twice_at_once_leaves_nothing_in_force(open_house: OpenHouse) -> None:
    """And one that was in force before stays so."""
    sim, refuses = create_sim(), asyncio.Event()
    asked = _answering(sim, "/pause", delay_s=0.1, refuses=refuses.is_set)
    async with serving(sim) as server:
        house = await open_house(engine=(_url(server),), engine_control=True)
        refuses.set()
        both = await asyncio.gather(*(admin(house, "pause", mode="hold", lease_s=60) for _ in range(2)))
        assert [answer.status for answer in both] == [502, 502]
        assert len(asked) >= 2
        assert (await state(house))["paused"] is None
        refuses.clear()
        await admin(house, "pause", mode="hold")
        refuses.set()
        assert (await admin(house, "pause", mode="cut")).status == 502
        assert ((await state(house))["paused"]["mode"], sim[CONTROL].paused) == ("hold", True)
        await admin(house, "resume")
        assert not sim[CONTROL].paused


async def test_engines_keep_their_caches_where_salts_keep_versions_apart(open_house: OpenHouse) -> None:
    """Otherwise they do as they do by default, which is to clear them."""
    for rule, version, said in [("start", "a", "false"), ("start", None, None), ("none", "a", None)]:
        sim = create_sim()
        asked = _answering(sim, "/pause")
        async with serving(sim) as server:
            house = await open_house(engine=(_url(server),), engine_control=True, cache_salt=rule)
            if version:
                await admin(house, "policy", version=version)
            await admin(house, "pause", mode="cut")
        assert asked == ["mode=abort" + (f"&clear_cache={said}" if said else "")]


async def test_what_an_engine_aborts_for_a_cut_is_cut_by_a_pause(open_house: OpenHouse, words: Words) -> None:
    """However often: it costs no attempt, though nothing was sampled."""
    house = await open_house(engine_control=True, resume_attempts=1, sim={"first_token_delay_s": 0.2})
    async with waiting(house, "s", HELLO, words.said("Yes.")) as call:
        for number in range(1, 5):
            await until(lambda: len(house.sim[CONTROL].runs) == 1)
            assert len(house.journal) == number
            cut = await admin(house, "pause", mode="cut")
            assert (cut.status, cut.body["in_flight"]) == (200, 0)
            await admin(house, "resume")
        assert (await call).status == 200
    assert await house.metric("gateway_cuts_total", reason="pause") == 4


async def test_turns_go_on_soon_after_a_lease_though_an_engine_answers_nothing(
    open_house: OpenHouse, words: Words
) -> None:
    """It is told again until it goes on."""
    sims = [create_sim(), create_sim()]
    frozen = Obstacle(sims[1])
    async with serving(sims[0]) as one, serving(sims[1]) as other:
        house = await open_house(engine=(_url(one), _url(other)), engine_control=True, resume_attempts=5)
        await admin(house, "pause", mode="hold")
        await admin(house, "resume")
        frozen.freeze()
        began_s = time.monotonic()
        pausing = asyncio.ensure_future(admin(house, "pause", mode="hold", lease_s=0.3))
        await until(lambda: sims[0][CONTROL].paused)
        await until(lambda: not sims[0][CONTROL].paused)
        assert (await pausing).error["code"] == "pause_ended"
        await until(lambda: _turns_go_on(house), within_s=5)
        assert time.monotonic() - began_s < 3.0
        frozen.thaw()


async def _turns_go_on(house: House) -> bool:
    return await house.metric("gateway_paused") == 0


async def test_an_engine_that_is_down_does_not_refuse_a_pause(open_house: OpenHouse) -> None:
    """What answers in its place, with a failure, is a proxy: it is told of, as one that does not answer."""
    sims = [create_sim(), create_sim()]
    serves = asyncio.Event()
    serves.set()

    @web.middleware
    async def proxied(request: web.Request, handler: Handler) -> web.StreamResponse:
        return await handler(request) if serves.is_set() else web.Response(status=503)

    sims[1].middlewares.append(proxied)
    async with serving(sims[0]) as one, serving(sims[1]) as other:
        house = await open_house(engine=(_url(one), _url(other)), engine_control=True, health_interval_s=0.2)
        serves.clear()

        async def is_down() -> bool:
            engines = (await house.call("GET", "/admin/engines")).body["data"]
            return bool(engines[1]["ranks"][0]["health"] == "down")

        await until(is_down, within_s=5)
        paused = await admin(house, "pause", mode="drain", lease_s=60)
        assert (paused.status, sims[0][CONTROL].paused) == (200, True)
        assert any(_url(other) in warning for warning in paused.body["warnings"])
        serves.set()
        await until(lambda: sims[1][CONTROL].paused, within_s=5)
        await admin(house, "resume")


async def test_a_score_that_a_cut_ends_is_asked_anew_under_control_too(open_house: OpenHouse) -> None:
    """Whatever the engine makes of it when it aborts: the gateway was first."""
    house = await open_house(engine_control=True, sim={"prefill_delay_s": 0.03})
    scoring = asyncio.ensure_future(house.send("POST", "/score", token_ids=list(range(100, 120))))
    await until(lambda: house.sim[JOURNAL].running)
    cut = await admin(house, "pause", mode="cut")
    assert (cut.body["in_flight"], scoring.done()) == (0, False)
    await admin(house, "resume")
    assert (await scoring).status == 200
    assert len(house.journal) == 2
