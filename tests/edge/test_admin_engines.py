"""Engines shown, added, drained and removed while the gateway runs."""

import asyncio
import gc
import tracemalloc
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import quote

import pytest
from aiohttp import web
from aiohttp.test_utils import unused_port

from gateway.sim import JOURNAL, create_sim
from tests.edge.house import HELLO, Answer, Application, House, Json, OpenHouse, generated, serving, until, waiting
from tests.edge.wild import METRICS, MODELS, answers, slow, url_of, wild


@asynccontextmanager
async def engine(app: Application | None = None, *, port: int | None = None) -> AsyncIterator[str]:
    """The URL of a running engine."""
    async with serving(app or create_sim(), port=port) as server:
        yield str(server.make_url("")).rstrip("/")


async def shown(house: House) -> list[Json]:
    """The engines as the gateway shows them."""
    answer = await house.send("GET", "/admin/engines")
    assert answer.status == 200
    assert answer.body["next"] is None
    engines: list[Json] = answer.body["data"]
    return engines


async def changed(house: House, url: str, **fields: object) -> Answer:
    """What the gateway says to an engine that is to be added, or drained."""
    return await house.send("POST", "/admin/engines", url=url, **fields)


async def removed(house: House, url: str) -> Answer:
    """What the gateway says to an engine that is to be removed."""
    return await house.send("DELETE", f"/admin/engines?url={quote(url, safe='')}")


async def test_an_engine_is_shown_with_all_that_is_known_of_it(open_house: OpenHouse) -> None:
    """What it is, how its ranks are, what they have to do."""
    house = await open_house(sim={"ranks": 2, "block_size": 16, "cache_blocks": 100, "token_delay_s": 3600})
    async with waiting(house, "s"):
        await until(lambda: house.journal)
        (one,) = await shown(house)
    assert one["url"].startswith("http://127.0.0.1:")
    facts = {name: one[name] for name in ("answers", "trouble", "version", "models", "window")}
    assert facts == {"answers": True, "trouble": None, "version": "0.32", "models": ["sim"], "window": 40960}
    assert [rank["rank"] for rank in one["ranks"]] == [0, 1]
    assert sorted(rank["in_flight"] for rank in one["ranks"]) == [0, 1]
    assert {(rank["health"], rank["draining"], rank["capacity_tokens"]) for rank in one["ranks"]} == {
        ("up", False, 1600)
    }
    (busy,) = (rank for rank in one["ranks"] if rank["in_flight"])
    assert busy["sessions"] == 1
    assert busy["resident_tokens"] > 0


async def test_an_engine_that_is_added_takes_turns(open_house: OpenHouse) -> None:
    """At once, and once: to add it again changes nothing."""
    house = await open_house(engine=())
    assert (await house.ask("s")).status == 503
    async with engine() as url:
        added = await changed(house, url)
        assert (added.status, added.body["answers"]) == (200, True)
        assert (await changed(house, f"{url}/")).body["url"] == url
        assert len(await shown(house)) == 1
        assert (await house.ask("s")).status == 200
        assert (await removed(house, url)).status == 200


async def test_an_engine_that_does_not_answer_yet_may_be_added(open_house: OpenHouse) -> None:
    """The answer says so, and when it comes up it is there."""
    house, port = await open_house(engine=(), health_interval_s=0.05), unused_port()
    added = await changed(house, f"http://127.0.0.1:{port}")
    assert (added.status, added.body["answers"]) == (200, False)
    assert str(port) in added.body["trouble"]
    assert [rank["health"] for rank in added.body["ranks"]] == ["down"]
    async with engine(port=port):

        async def answers() -> bool:
            return bool((await shown(house))[0]["answers"])

        await until(answers)
        await house.http.close()


async def test_the_number_of_an_engines_ranks_may_be_said_anew(open_house: OpenHouse) -> None:
    """By its URL with another number."""
    house = await open_house(sim={"ranks": 3})
    (one,) = await shown(house)
    assert len(one["ranks"]) == 3
    again = await changed(house, f"{one['url']}#dp=2")
    assert [rank["rank"] for rank in again.body["ranks"]] == [0, 1]
    assert (await house.ask("s")).status == 200


async def test_ranks_that_are_said_anew_count_though_the_engine_is_being_asked(open_house: OpenHouse) -> None:
    """What it is asked for meanwhile was begun before."""
    app, hooks = wild(ranks=4)
    async with serving(app) as server:
        house = await open_house(engine=(f"{url_of(server)}#dp=1",), health_interval_s=0.05)
        checked = asyncio.Event()

        async def metrics(_request: web.Request) -> None:
            checked.set()
            await asyncio.sleep(0.2)

        hooks[METRICS] = metrics
        await checked.wait()
        again = await changed(house, f"{url_of(server)}#dp=4")
        assert [rank["rank"] for rank in again.body["ranks"]] == [0, 1, 2, 3]


async def test_a_url_is_unquoted_once(open_house: OpenHouse) -> None:
    """One that is itself percent-encoded stays so."""
    house = await open_house(engine=())
    await changed(house, "http://127.0.0.1:1/a%25b")
    gone = await house.call("DELETE", "/admin/engines?url=http://127.0.0.1:1/a%2525b")
    assert (gone.status, await shown(house)) == (200, [])


async def test_the_gateway_is_ready_while_some_rank_takes_turns(open_house: OpenHouse) -> None:
    """Not when all are drained."""
    house = await open_house()
    (one,) = await shown(house)
    for draining, status in ((True, 503), (False, 200)):
        await changed(house, one["url"], draining=draining)
        assert (await house.call("GET", "/ready")).status == status
        assert (await house.call("GET", "/v1/models")).status == 200


async def test_models_are_listed_though_an_engine_hangs(open_house: OpenHouse, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of the others, soon; where there is no other, it is waited for."""
    monkeypatch.setattr("gateway.edge.relay._SLOWER_S", 0.2)
    (one, _), (two, hooks) = wild(model="base"), wild(model="other")
    async with serving(one) as first, serving(two) as second:
        house = await open_house(engine=(url_of(first), url_of(second)), health_interval_s=3600)
        hooks[MODELS] = slow(60)
        async with asyncio.timeout(2):
            listed = await house.call("GET", "/v1/models")
        assert [card["id"] for card in listed.body["data"]] == ["base"]
        await removed(house, url_of(first))
        hooks[MODELS] = slow(0.5)
        listed = await house.call("GET", "/v1/models")
        assert [card["id"] for card in listed.body["data"]] == ["other"]


async def test_a_drained_rank_gets_no_new_turns(open_house: OpenHouse) -> None:
    """Until it is taken back; the turn that it has goes on to its end."""
    house = await open_house(sim={"ranks": 2})
    (one,) = await shown(house)
    drained = await changed(house, one["url"], rank=0, draining=True)
    assert [rank["draining"] for rank in drained.body["ranks"]] == [True, False]
    for at in range(6):
        assert (await house.ask(f"s{at}")).status == 200
    assert {entry.headers["x-data-parallel-rank"] for entry in house.journal} == {"1"}
    everything = await changed(house, one["url"], draining=True)
    assert [rank["draining"] for rank in everything.body["ranks"]] == [True, True]
    assert (await house.ask("new")).status == 503
    await changed(house, one["url"], draining=False)
    assert (await house.ask("new")).status == 200


async def test_a_removed_engine_gets_nothing_more(open_house: OpenHouse) -> None:
    """Its call is ended at once, and new ones go elsewhere; nothing is shown of it."""
    slow, other = create_sim(token_delay_s=3600), create_sim()
    async with engine(slow) as first, engine(other) as second:
        house = await open_house(engine=(first,))
        async with waiting(house, "s"):
            await until(lambda: generated(slow))
            await changed(house, second)
            gone = await removed(house, first)
            assert gone.body == {"url": first, "removed": True, "interrupted": 1}
            assert slow[JOURNAL].running == 0
        assert (await house.ask("s", HELLO)).status == 200
        assert len(generated(slow)) == 1
        assert [one["url"] for one in await shown(house)] == [second]
        assert first not in (await house.call("GET", "/metrics")).body
        again = await removed(house, first)
        assert (again.status, again.error["code"]) == (404, "engine_not_found")
        await house.http.close()


async def test_an_engine_may_be_named_in_a_body_as_well(house: House) -> None:
    """Where a URL within a URL is tedious."""
    (one,) = await shown(house)
    gone = await house.send("DELETE", "/admin/engines", url=f"{one['url']}#dp=1")
    assert (gone.status, await shown(house)) == (200, [])


@pytest.mark.parametrize(
    ("method", "path", "fields", "status", "param"),
    [
        ("POST", "", {"url": "nonsense"}, 400, "url"),
        ("POST", "", {}, 400, "url"),
        ("POST", "", {"url": "http://e", "rank": 0}, 400, "rank"),
        ("DELETE", "", {"url": "http://e", "rank": 0, "draining": True}, 400, "rank"),
        ("POST", "", {"url": "http://e", "draining": True}, 404, "url"),
        ("DELETE", "", {}, 400, "url"),
        ("DELETE", "?url=http://e", {}, 404, "url"),
    ],
)
async def test_what_cannot_be_done_is_refused(
    house: House, method: str, path: str, fields: Json, status: int, param: str
) -> None:
    """With the field at fault."""
    refused = await house.send(method, f"/admin/engines{path}", **fields)
    assert (refused.status, refused.error["param"]) == (status, param)


async def test_a_rank_that_an_engine_has_not_cannot_be_drained(house: House) -> None:
    """It is said how many there are."""
    (one,) = await shown(house)
    refused = await changed(house, one["url"], rank=7, draining=True)
    assert (refused.status, refused.error["param"]) == (404, "rank")
    assert "it has 1" in refused.error["message"]


async def test_only_the_admins_key_opens_it(open_house: OpenHouse) -> None:
    """An agent has no business there."""
    house = await open_house(admin_key="boss", agent_key="agent")
    for key, status in (("boss", 200), ("agent", 403), ("", 401)):
        answer = await house.call("GET", "/admin/engines", headers={"Authorization": f"Bearer {key}"})
        assert answer.status == status


async def test_the_models_of_all_engines_are_listed(open_house: OpenHouse) -> None:
    """Of one engine its own words; a turn goes to the engine that has its model."""
    one, two = create_sim(model="small"), create_sim(model="large")
    async with engine(one) as first, engine(two) as second:
        house = await open_house(engine=(first, second))
        listed = await house.call("GET", "/v1/models")
        assert [card["id"] for card in listed.body["data"]] == ["small", "large"]
        for at in range(3):
            assert (await house.ask(f"s{at}", model="large")).status == 200
        assert (len(generated(one)), len(generated(two))) == (0, 3)
        await house.http.close()


@pytest.mark.process
async def test_engines_that_come_and_go_leave_nothing_behind(open_house: OpenHouse) -> None:
    """No task, socket or memory, whatever they were at."""
    house, app = await open_house(), create_sim(ranks=2)
    async with engine(app) as url:

        async def come_and_go(times: int) -> None:
            for at in range(times):
                await changed(house, url)
                await house.ask(f"s{at % 4}")
                assert (await removed(house, url)).status == 200

        await come_and_go(10)
        before, tasks = await _memory(), len(asyncio.all_tasks())
        await come_and_go(20)
        assert len(asyncio.all_tasks()) <= tasks
        assert (await _memory()) - before < 300_000
        assert app[JOURNAL].running == 0
        await house.http.close()
    tracemalloc.stop()


async def _memory() -> int:
    if not tracemalloc.is_tracing():
        tracemalloc.start()
    gc.collect()
    return tracemalloc.get_traced_memory()[0]


async def test_an_engine_that_has_to_prove_itself_while_turns_are_held_is_asked_for_its_models(
    open_house: OpenHouse,
) -> None:
    """It answers; and that turns do not go there yet is what /ready says."""
    app, hooks = wild()
    async with serving(app) as server:
        house = await open_house(engine=(url_of(server),), health_interval_s=0.05)
        assert (await house.ask("s")).status == 200
        await house.send("POST", "/admin/pause", mode="hold")

        async def is_health(state: str) -> bool:
            return bool((await shown(house))[0]["ranks"][0]["health"] == state)

        hooks.update({path: answers(503) for path in (METRICS, MODELS)})
        await until(lambda: is_health("down"))
        hooks.clear()
        await until(lambda: is_health("probing"))
        listed = await house.call("GET", "/v1/models")
        assert [card["id"] for card in listed.body["data"]] == ["sim"]
        ready = await house.call("GET", "/ready")
        assert (ready.status, ready.body["status"]) == (503, "engines that were away prove themselves when turns go on")
        await house.send("POST", "/admin/resume")
        await until(lambda: is_health("up"))
        assert (await house.call("GET", "/ready")).status == 200
