"""Which engine takes a turn, and what becomes of engines that are down."""

import asyncio
import socket
from contextlib import suppress
from itertools import count

import pytest
from aiohttp.test_utils import unused_port

from gateway.core.pool import Demand, RankLoad, pick
from gateway.edge.backends import Backends
from gateway.edge.engine import Engine
from gateway.edge.metrics import Metrics
from gateway.edge.rank import RankCounts
from gateway.errors import BadRequest, EngineProtocolError, EngineUnavailable
from gateway.sim import create_sim
from tests.edge.house import HELLO, House, OpenHouse, Words, generated, serving, until, user
from tests.edge.pooling import Known, pooled, settle


async def test_the_least_loaded_engine_takes_a_turn() -> None:
    """A lease that ends makes room."""
    async with pooled(Known("a"), Known("b")) as pool:
        one, two = pool.call("s"), pool.call("t")
        await settle()
        assert {one.rank, two.rank} == {"a#0", "b#0"}
        home = await two.end()
        assert await pool.call("u").end() == home


async def test_the_ranks_of_an_engine_share_its_sessions() -> None:
    """Each is a place of its own, and named to the engine."""
    async with pooled(Known("http://e#dp=3")) as pool:
        calls = [pool.call(name) for name in "stu"]
        await settle()
        assert {call.rank for call in calls} == {"http://e#0", "http://e#1", "http://e#2"}
        assert [rank.number for rank in pool.backends.ranks] == [0, 1, 2]


async def test_a_session_stays_where_its_prefix_is_cached() -> None:
    """However loaded that engine is, as long as it is up."""
    async with pooled(Known("a"), Known("b")) as pool:
        home = await pool.call("s").end(10)
        calls = [pool.call("s") for _ in range(5)]
        await settle()
        assert {call.rank for call in calls} == {home}
        pool.engine(home[0]).max_model_len = None
        assert await pool.call("s").end() != home


@pytest.mark.parametrize(
    "failure", [EngineUnavailable("gone"), EngineProtocolError("odd"), ValueError(), asyncio.CancelledError()]
)
async def test_a_lease_ends_however_it_ends(failure: BaseException) -> None:
    """Its engine counts no turn more, and is still there for the next."""
    async with pooled(Known("a")) as pool:
        with suppress(type(failure)):
            async with pool.backends.lease(pool.session("s"), Demand(1)):
                raise failure
        pool.holds_nothing()
        assert pool.backends.known() == {"a#0": 4096}


async def test_an_engine_that_cannot_be_reached_gets_no_turn_before_it_answers() -> None:
    """Others take its turns, those pinned to it as well."""
    async with pooled(Known("a"), Known("b")) as pool:
        home = await pool.call("s").end(10)
        pool.engine(home[0]).max_model_len = None  # as a failed call leaves it
        away = await pool.call("s").end(10)
        assert away != home
        await pool.backends.refresh()
        running = [pool.call("t"), pool.call("u")]
        await settle()
        assert {call.rank for call in running} == {"a#0", "b#0"}
        assert await pool.call("s").end(10) == away


async def test_without_any_engine_that_answers_there_is_no_lease() -> None:
    """The error says what was wrong with each."""
    async with pooled(Known("a", up=False), Known("b", up=False)) as pool:
        with pytest.raises(EngineUnavailable, match=r"a is down.*b is down"):
            await pool.call("s").task
        assert pool.backends.known() == {}
    async with pooled() as pool:
        with pytest.raises(EngineUnavailable, match="--engine"):
            await pool.call("s", rank_number=3).task


async def test_a_running_engine_is_not_asked_again() -> None:
    """Neither by calls nor by the watch: it has answered."""
    known = Known("a")
    async with pooled(known) as pool:
        await pool.backends.refresh()
        await pool.call("s").end()

    assert known.asked == 1


async def test_engines_come_and_go_and_nothing_is_kept_of_those_that_went() -> None:
    """Nor is what they are called told of any more; turns that they have may end."""
    async with pooled(Known("a")) as pool:
        for at in range(50):
            engine = Known("http://e#dp=2")
            await engine.refresh()
            pool.backends.add(engine)
            pool.backends.add(Known("http://e"))
            assert pool.backends.engines[1:] == [engine]
            pool.backends.drain(pool.backends.ranks[0], draining=True)
            call = pool.call(f"s{at}")
            await settle()
            assert call.rank in ("http://e#0", "http://e#1")
            assert call.lease is not None
            assert pool.backends.counts(call.lease.rank) == RankCounts(1, 0, 1, 1)
            pool.backends.drain(pool.backends.ranks[0], draining=False)
            pool.backends.remove(engine)
            await call.end(10)
            assert pool.counted("gateway_turns_in_flight", engine="a", rank="0") == 0
            assert b'"e:80' not in pool.metrics.text()
            assert [rank.name for rank in pool.backends.ranks] == ["a#0"]
        assert len(pool.backends.places.residency._stays) == 0


async def test_an_engine_may_get_more_ranks_or_fewer() -> None:
    """Those that stay keep their sessions."""
    engine = Known("http://e#dp=2")
    async with pooled(engine) as pool:
        calls = [pool.call(name) for name in "st"]
        await settle()
        engine.ranks = 3
        pool.backends.renumber(engine)
        third = pool.call("u")
        await settle()
        assert third.rank == "http://e#2"
        engine.ranks = 1
        pool.backends.renumber(engine)
        homes = [await call.end(10) for call in calls]
        assert homes.count("http://e#0") == 1
        assert {await pool.call(name).end(10) for name in "stu"} == {"http://e#0"}
        assert pool.counted("gateway_session_moves_total", reason="removed") == 2


async def test_a_caller_may_insist_on_a_rank() -> None:
    """Of whatever engine; one that there is not is its own fault, but not that of an answer that is carried on."""
    async with pooled(Known("http://e#dp=3"), Known("http://f")) as pool:
        assert {await pool.call(f"s{at}", rank_number=2).end(10) for at in range(5)} == {"http://e#2"}
        assert await pool.call("s0").end(10) == "http://e#2"
        assert await pool.call("s0", rank_number=1).end(10) == "http://e#1"
        assert pool.counted("gateway_session_moves_total", reason="demanded") == 1
        with pytest.raises(BadRequest, match="no data-parallel rank 3") as refused:
            await pool.call("t", rank_number=3).task
        assert refused.value.param == "X-data-parallel-rank"
        await pool.call("t", rank_number=3, resumes=True).end()


async def test_a_model_is_asked_of_the_engines_that_have_it() -> None:
    """Of none else, though they are down; a name that nobody lists goes to any."""
    small, large = Known("a", models=["small"]), Known("b", models=["large", "adapter"])
    async with pooled(small, large) as pool:
        for model, home in (("small", "a#0"), ("large", "b#0"), ("adapter", "b#0")):
            assert {await pool.call(f"{model}{at}", model=model).end() for at in range(5)} == {home}
        assert {await pool.call(f"other{at}", model="other").end() for at in range(20)} == {"a#0", "b#0"}
        small.max_model_len = None
        small.up = False
        with pytest.raises(EngineUnavailable, match="drained or down"):
            await pool.call("s", model="small").task


async def test_a_prompt_goes_where_the_context_holds_it() -> None:
    """Where none does, anywhere: the error is then about the prompt."""
    async with pooled(Known("a", window=100), Known("b", window=1000)) as pool:
        assert {await pool.call(f"s{at}", 500).end() for at in range(5)} == {"b#0"}
        assert {await pool.call(f"s{at}", 5000).end() for at in range(20, 40)} == {"a#0", "b#0"}


async def test_an_engine_that_is_down_at_the_start_is_found_when_it_comes_up(
    open_house: OpenHouse, words: Words
) -> None:
    """Until then /ready is 503, and calls are 503 with Retry-After; afterwards both by themselves are 200."""
    port = unused_port()
    house = await open_house(engine=(f"http://127.0.0.1:{port}",))

    refused = await house.ask("s", HELLO, words.said("Hi."))
    assert refused.status == 503
    assert refused.error["code"] == "engine_unavailable"
    assert int(refused.headers["Retry-After"]) >= 1
    assert (await house.call("GET", "/ready")).status == 503
    assert (await house.call("GET", "/health")).status == 200
    assert (await house.call("GET", "/v1/models")).status == 503
    assert await house.turns("s") == []

    async with serving(create_sim(), port=port):
        await until(lambda: ready(house), within_s=4)
        assert (await house.ask("s", HELLO, words.said("Hi."))).status == 200
    await house.http.close()


async def test_a_call_finds_an_engine_that_just_came_up(open_house: OpenHouse, words: Words) -> None:
    """It does not wait for the watch."""
    port = unused_port()
    house = await open_house(engine=(f"http://127.0.0.1:{port}",))
    async with serving(create_sim(), port=port):
        assert (await house.ask("s", HELLO, words.said("Hi."))).status == 200
    await house.http.close()


async def test_an_engine_that_dies_is_replaced_by_another(open_house: OpenHouse, words: Words) -> None:
    """One call may fail; the session goes on elsewhere, with the ids it had."""
    one, two = create_sim(), create_sim()
    async with serving(two) as second:
        async with serving(one) as first:
            urls = [str(server.make_url("")).rstrip("/") for server in (first, second)]
            ranks = [RankLoad(f"{url}#0") for url in urls]
            name = next(f"s{at}" for at in count() if pick(ranks, None, f"s{at}") == ranks[0].name)
            house = await open_house(engine=tuple(urls))
            answer = await house.ask(name, HELLO, words.said("Hi."))
            assert len(generated(one)) == 1
        messages = [*HELLO, answer.message, user("And?")]
        statuses = [(await house.ask(name, messages, words.said("Yes."))).status for _ in range(2)]
        await house.http.close()

    assert statuses[-1] == 200
    assert set(statuses) <= {200, 503}
    sampled = len(generated(one)[0].body["token_ids"]), words.said("Hi.")  # type: ignore[arg-type]  # JSON, a list
    ids = generated(two)[-1].body["token_ids"]
    assert isinstance(ids, list)
    assert ids[sampled[0] :][: len(sampled[1])] == sampled[1]


async def ready(house: House) -> bool:
    """Whether the gateway says that it is."""
    return (await house.call("GET", "/ready")).status == 200


async def test_turns_are_spread_over_engines(open_house: OpenHouse, words: Words) -> None:
    """Sessions that come at once go to different engines, and stay there."""
    sims = [create_sim(token_delay_s=0.01) for _ in range(2)]
    async with serving(sims[0]) as first, serving(sims[1]) as second:
        house = await open_house(engine=(str(first.make_url("")), str(second.make_url(""))))
        for _ in range(3):
            await asyncio.gather(*(house.ask(f"s{at}", HELLO, words.said("Hello, you.")) for at in range(4)))
        await house.http.close()

    assert [len(generated(sim)) for sim in sims] == [6, 6]


async def test_an_engine_that_says_nothing_holds_up_no_start() -> None:
    """A port that accepts and never answers is one engine down, not a gateway down."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        mute = Engine(f"http://127.0.0.1:{silent.getsockname()[1]}")
        async with serving(create_sim()) as server:
            backends = Backends([mute, Engine(str(server.make_url("")))], Metrics())
            try:
                async with asyncio.timeout(1.5):
                    await backends.refresh()
                assert list(backends.known().values()) == [40960]
            finally:
                await backends.close()


async def test_a_session_keeps_its_rank_and_the_engine_is_told_which(open_house: OpenHouse, words: Words) -> None:
    """The rank whose cache holds the prefix takes every turn; other sessions go elsewhere."""
    house = await open_house(sim={"ranks": 2}, ranks=2)
    sessions = [f"s{at}" for at in range(12)]
    for session in sessions:
        messages = [*HELLO]
        for _ in range(3):
            answer = await house.ask(session, messages, words.said("Hi."))
            messages += [answer.message, user("And?")]
    told = [entry.headers["x-data-parallel-rank"] for entry in house.journal]
    recorded = [str(turn["rank"]) for session in sessions for turn in await house.turns(session)]

    assert told == recorded
    assert {entry.headers["x-session-id"] for entry in house.journal} == set(sessions)
    assert all(len(set(told[at : at + 3])) == 1 for at in range(0, 36, 3))
    assert set(told) == {"0", "1"}


async def test_a_header_names_the_rank(open_house: OpenHouse, words: Words) -> None:
    """One that there is not, or that is no number, is 400; a later call without it goes where the prefix is."""
    house = await open_house(sim={"ranks": 3}, ranks=3)
    for number in (2, 0, 1, 1):
        headers = {"X-data-parallel-rank": str(number)}
        assert (await house.ask("s", HELLO, words.said("Hi."), headers=headers)).status == 200
    assert (await house.ask("s", HELLO, words.said("Hi."))).status == 200
    assert [entry.headers["x-data-parallel-rank"] for entry in house.journal] == ["2", "0", "1", "1", "1"]
    for ill in ("3", "-1", "one", ""):
        refused = await house.ask("s", HELLO, words.said("Hi."), headers={"X-data-parallel-rank": ill})
        assert (refused.status, refused.error["param"]) == (400, "X-data-parallel-rank")
    assert await house.metric("gateway_session_moves_total", reason="demanded") == 2


async def test_what_is_cached_is_known_until_a_session_is_over(open_house: OpenHouse, words: Words) -> None:
    """Finished or deleted, it makes room for others."""
    house = await open_house()
    for name in ("s", "t"):
        assert (await house.ask(name, HELLO, words.said("Hi."))).status == 200
    resident = await house.metric("gateway_rank_resident_tokens")
    turns = [turn for name in ("s", "t") for turn in await house.turns(name)]
    assert resident == sum(turn["prompt_tokens"] + turn["completion_tokens"] for turn in turns)
    assert (await house.send("POST", "/sessions/s/finish")).status == 200
    assert await house.metric("gateway_rank_resident_tokens") == resident / 2
    assert (await house.send("DELETE", "/sessions/t")).status == 204
    assert await house.metric("gateway_rank_resident_tokens") == 0
    assert await house.metric("gateway_phase_seconds_count", phase="queue") == 2
    assert await house.metric("gateway_queue_turns") == 0
