"""Which version sampled what, where weights change while calls are under way, or nobody says that they did."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from itertools import count

import pytest
from aiohttp import web

from gateway.render.registry import Renderers
from gateway.sim import JOURNAL, create_sim
from gateway.sim.keys import CONTROL
from tests.edge.house import HELLO, House, OpenHouse, Words, serving, until, waiting
from tests.edge.talkative import Talkative, slow
from tests.edge.test_pause import admin, spans, state
from tests.edge.test_stream_slow import resting

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
LONG = "It is a long answer."
_NUMBERS = count()


async def fenced(house: House, version: str) -> None:
    """A version that is in the engines for certain."""
    await admin(house, "pause", mode="drain")
    await admin(house, "resume", version=version)


async def test_a_version_that_is_announced_while_a_call_runs_is_assumed_on_both_sides(
    open_house: OpenHouse, words: Words
) -> None:
    """Where the engines had it nobody knows; how stale what is in flight has become is told."""
    house = await open_house(sim={"token_delay_s": 0.02, "version": "0.26.0"})
    script = words.said("It is a long answer.")
    await admin(house, "policy", version="a")
    async with waiting(house, "s", HELLO, script, stream=True) as call:
        await until(lambda: house.sim[JOURNAL].running)
        await asyncio.sleep(0.15)
        await admin(house, "policy", version="b")
        assert await house.metric("gateway_policy_staleness") == 1
        assert (await call).status == 200
    (one, start, middle, before), (two, again, end, after) = await spans(house)
    assert (one, two, start, end, before, after) == ("a", "b", 0, len(script), "assumed", "assumed")
    assert 0 < middle == again < len(script)


async def test_a_call_is_frozen_by_a_hold_and_goes_on_after_it(open_house: OpenHouse, words: Words) -> None:
    """Where the engine keeps no id back, what is announced meanwhile begins exactly there."""
    house = await open_house(engine_control=True, sim={"token_delay_s": 0.02, "version": "0.26.0"})
    script = words.said("It is a long answer.")
    await admin(house, "policy", version="a")
    async with waiting(house, "s", HELLO, script, stream=True) as call:
        await until(lambda: house.sim[JOURNAL].running)
        await asyncio.sleep(0.15)
        await admin(house, "pause", mode="hold")
        await asyncio.sleep(0.1)
        assert (await state(house))["in_flight"] == 1
        await admin(house, "resume", version="b")
        assert (await call).status == 200
    (one, start, middle, before), (two, again, end, after) = await spans(house)
    assert (one, two, start, end, before, after) == ("a", "b", 0, len(script), "assumed", "fenced")
    assert middle == again


async def test_a_pause_that_ends_by_its_lease_leaves_the_version_assumed(open_house: OpenHouse, words: Words) -> None:
    """Its trainer may have loaded weights and died; what a later pause announces is exact again."""
    house = await open_house(sim={"version": "0.31.0"})
    script = words.said("Yes.")
    await fenced(house, "a")
    await admin(house, "pause", mode="drain", owner="dead", lease_s=0.1)
    house.sim[CONTROL].version = "b"
    await house.ask("s", HELLO, script)
    assert await spans(house) == [("a", 0, len(script), "assumed")]
    assert (await house.call("GET", "/admin/policy")).body == {"version": "a", "ordinal": 1, "source": "assumed"}
    await admin(house, "pause", mode="drain")
    await admin(house, "resume", version="a")
    await house.ask("s", HELLO, script)
    assert await spans(house) == [("a", 0, len(script), "fenced")]


@pytest.mark.parametrize("during", [False, True])
async def test_what_an_engine_samples_that_was_restarted_is_assumed_until_it_is_announced_anew(
    open_house: OpenHouse, words: Words, *, during: bool
) -> None:
    """It has the weights that it was started with. Others stay fenced; within a pause it is announced for it, too."""
    script = words.said("Yes.")
    async with serving(create_sim(version="0.31.0")) as other, AsyncExitStack() as running:
        first = await running.enter_async_context(serving(create_sim(version="0.31.0")))
        urls = tuple(str(server.make_url("")).rstrip("/") for server in (first, other))
        house, port = await open_house(engine=urls, health_interval_s=0.2), first.port
        await fenced(house, "a")
        if during:
            await admin(house, "pause", mode="drain")
        await running.aclose()
        await until(lambda: _health(house, urls[0], "down"))
        await running.enter_async_context(serving(create_sim(version="0.31.0"), port=port))
        await until(lambda: _health(house, urls[0], "probing" if during else "up"), within_s=5)
        if during:
            await admin(house, "resume", version="b")
            await until(lambda: _health(house, urls[0], "up"), within_s=5)
        assert await _sources(house, script) == {urls[0]: "fenced" if during else "assumed", urls[1]: "fenced"}
        await fenced(house, "b")
        assert await _sources(house, script) == dict.fromkeys(urls, "fenced")


async def _health(house: House, url: str, state: str) -> bool:
    engines = (await house.call("GET", "/admin/engines")).body["data"]
    return any(rank["health"] == state for engine in engines if engine["url"] == url for rank in engine["ranks"])


async def _sources(house: House, script: Sequence[int]) -> dict[str, str]:
    """By engine, how well it is known what sampled: as new sessions there are told."""
    found: dict[str, str] = {}
    while len(found) < 2:
        session = f"s{next(_NUMBERS)}"
        assert (await house.ask(session, HELLO, script)).status == 200
        turn = (await house.turns(session))[-1]
        found[turn["engine"]] = turn["policy_versions"][-1]["source"]
    return found


@pytest.mark.parametrize("version", ["b", None])
async def test_what_calls_sample_during_a_hold_is_assumed(
    open_house: OpenHouse, words: Words, version: str | None
) -> None:
    """They go on, and weights may come at any moment of it, also for one that ends before the announcement. Where
    none was announced, what comes after the hold is as before.
    """
    house = await open_house(sim={"token_delay_s": 0.02, "version": "0.31.0"})
    script = words.said(LONG)
    await fenced(house, "a")
    async with waiting(house, "short", HELLO, script) as short:
        await until(lambda: house.sim[JOURNAL].running == 1)
        await asyncio.sleep(0.2)
        async with waiting(house, "long", HELLO, script) as long:
            await until(lambda: house.sim[JOURNAL].running == 2)
            await asyncio.sleep(0.1)
            await admin(house, "pause", mode="hold")
            assert (await short).status == 200
            await admin(house, "resume", **({"version": version} if version else {}))
            assert (await long).status == 200
    (_, _, began, first), (_, again, end, second) = await spans(house, "short")
    assert (first, second, end) == ("fenced", "assumed", len(script))
    assert 0 < began == again < end
    told = await spans(house, "long")
    rest = ("b", "assumed") if version else ("a", "fenced")
    assert [(name, source) for name, _, _, source in told] == [("a", "fenced"), ("a", "assumed"), rest]


async def test_a_frozen_call_whose_client_is_slow_is_assumed(open_house: OpenHouse, renderers: Renderers) -> None:
    """What it has sampled lies unread, nobody knows how much."""
    sim = {"version": "0.26.0"}
    talkative = Talkative(renderers.get({}).renderer)
    house = await open_house(engine_control=True, sim=sim, renderer=talkative, narrow=True)
    await fenced(house, "a")
    async with slow(house, "s", [100] * 6_000) as client:
        await until(lambda: house.journal and house.journal[0].emitted)
        await resting(house)
        await admin(house, "pause", mode="hold")
        assert (await state(house))["in_flight"] == 1
        await admin(house, "resume", version="b")
        reading = asyncio.ensure_future(client.take_all())
        await until(lambda: house.turns("s"), within_s=20)
        reading.cancel()
    assert [(name, source) for name, _, _, source in await spans(house)] == [("a", "assumed"), ("b", "assumed")]


async def test_an_engine_that_is_told_to_go_on_is_not_frozen_any_more(open_house: OpenHouse, words: Words) -> None:
    """Whether or not it, or another one, has said so: what is announced then is no fence for what it has begun."""
    sim = create_sim(version="0.26.0", token_delay_s=0.02)

    @web.middleware
    async def late(request: web.Request, handler: Handler) -> web.StreamResponse:
        answer = await handler(request)
        if request.path == "/resume":
            await asyncio.sleep(0.6)
        return answer

    sim.middlewares.append(late)
    async with serving(sim) as server:
        house = House((await open_house(engine=(str(server.make_url("")),), engine_control=True)).http, sim)
        await admin(house, "policy", version="a")
        async with waiting(house, "s", HELLO, words.said(LONG * 2)) as call:
            await until(lambda: sim[JOURNAL].running)
            await admin(house, "pause", mode="hold", owner="late", lease_s=0.2)
            await until(lambda: not sim[CONTROL].paused)
            told = await state(house)
            assert (told["paused"], told["warnings"]) == (
                None,
                ["no pause is in force any more, and turns are held until engines go on"],
            )
            await admin(house, "resume", owner="late", version="b")
            assert not call.done()
            assert (await call).status == 200
        assert {source for _, _, _, source in await spans(house)} == {"assumed"}


@pytest.mark.parametrize(
    ("rule", "salts"),
    [
        ("start", ["policy 1:a", "policy 1:a", "policy 1:b", "policy 1:a"]),
        ("current", ["policy 1:a", "policy 1:b", "policy 1:b", "policy 1:b"]),
        ("none", [None, None, None, None]),
    ],
)
async def test_the_salt_keeps_caches_of_policies_apart(
    open_house: OpenHouse, words: Words, rule: str, salts: list[str | None]
) -> None:
    """By the version at the start of the session or its group, the current one, or not at all."""
    house = await open_house(cache_salt=rule)
    script = words.said("Yes.")
    await admin(house, "policy", version="a")
    await house.send("POST", "/sessions", session_id="old", group_id="g")
    await house.ask("old", HELLO, script)
    await admin(house, "policy", version="b")
    await house.send("POST", "/sessions", session_id="member", group_id="g")
    for session in ("old", "new", "member"):
        await house.ask(session, HELLO, script)
    assert [entry.body.get("cache_salt") for entry in house.journal] == salts
    await house.ask("new", HELLO, script, cache_salt="mine")
    assert str(house.journal[-1].body["cache_salt"]).endswith("mine")


async def test_a_session_begins_with_its_first_call_of_an_engine(house: House, words: Words) -> None:
    """Not when it is made or comes, and is held: its cache is that of the policy which samples it."""
    await admin(house, "policy", version="a")
    await house.send("POST", "/sessions", session_id="made", group_id="g")
    await admin(house, "pause", mode="hold")
    script = words.said("Yes.")
    async with waiting(house, "made", HELLO, script) as one, waiting(house, "new", HELLO, script) as other:
        await asyncio.sleep(0.05)
        await admin(house, "resume", version="b")
        assert (await one).status == (await other).status == 200
    assert {entry.body["cache_salt"] for entry in house.journal} == {"policy 1:b"}


async def test_a_version_of_an_engine_that_no_header_can_hold_fails_its_turn_alone(house: House, words: Words) -> None:
    """It is named, and the gateway goes on."""
    script = words.said("Yes.")
    house.sim[CONTROL].version = "v" * 257
    refused = await house.ask("s", HELLO, script)
    assert (refused.status, refused.error["code"]) == (502, "engine_protocol_error")
    assert "257" in refused.error["message"]
    house.sim[CONTROL].version = "π" * 256
    assert [(await house.ask("s", HELLO, script)).status for _ in range(2)] == [200, 200]
