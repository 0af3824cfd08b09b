"""Which engine takes a turn, and what becomes of engines that are down."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from itertools import count

import pytest

from gateway.core.pool import pick
from gateway.edge.backends import Backends
from gateway.edge.engine import Engine
from gateway.edge.metrics import Metrics
from gateway.errors import EngineProtocolError, EngineUnavailable
from gateway.sim import create_sim
from tests.edge.house import HELLO, House, OpenHouse, Words, generated, serving, until, user


class Known(Engine):
    """An engine whose answers are known: it is up or not."""

    def __init__(self, url: str, *, up: bool = True) -> None:
        super().__init__(url)
        self.up = up
        self.asked = 0

    async def refresh(self) -> None:
        self.asked += 1
        self.max_model_len = 4096 if self.up else None
        self.trouble = "" if self.up else f"{self.url} is down"


def engines(count: int) -> list[Known]:
    """Engines by name: a, b, and so on."""
    return [Known("abcdef"[at]) for at in range(count)]


@asynccontextmanager
async def opened(known: list[Known]) -> AsyncIterator[Backends]:
    """The backends of these engines, each asked once."""
    backends = Backends(known, Metrics())
    await backends.refresh()
    try:
        yield backends
    finally:
        await backends.close()


async def test_the_least_loaded_engine_takes_a_turn() -> None:
    """A lease that ends makes room."""
    async with opened(engines(2)) as backends:
        async with backends.lease(None, "s") as one:
            async with backends.lease(None, "s") as two:
                assert {one.name, two.name} == {"a#0", "b#0"}
            async with backends.lease(None, "s") as three:
                assert three.name == two.name
        async with backends.lease(None, "s") as four:
            assert four.name == one.name


async def test_the_ranks_of_an_engine_share_its_sessions() -> None:
    """Each is a place of its own, and named to the engine."""
    async with opened([Known("http://e#dp=3")]) as backends:
        async with backends.lease(None, "s") as one, backends.lease(None, "s") as two:
            assert one.engine is two.engine
            assert len({one.number, two.number} & {0, 1, 2}) == 2
        async with backends.lease("http://e#1", "s") as pinned:
            assert pinned.number == 1


async def test_a_session_stays_where_its_prefix_is_cached() -> None:
    """However loaded that engine is, as long as it is up."""
    known = engines(2)
    async with opened(known) as backends:
        async with backends.lease("a#0", "s"), backends.lease("a#0", "s") as lease:
            assert lease.engine.url == "a"
        known[0].max_model_len = None
        async with backends.lease("a#0", "s") as lease:
            assert lease.engine.url == "b"


@pytest.mark.parametrize(
    "failure", [EngineUnavailable("gone"), EngineProtocolError("odd"), ValueError(), asyncio.CancelledError()]
)
async def test_a_lease_ends_however_it_ends(failure: BaseException) -> None:
    """Its engine counts no turn more, and is still there for the next."""
    known = engines(1)
    async with opened(known) as backends:
        with suppress(type(failure)):
            async with backends.lease(None, "s"):
                raise failure

        assert backends._load == {"a#0": 0}
        assert known[0].max_model_len == 4096


async def test_an_engine_that_cannot_be_reached_gets_no_turn_before_it_answers() -> None:
    """Others take its turns, those pinned to it as well."""
    known = engines(2)
    async with opened(known) as backends:
        known[0].max_model_len = None  # as a failed call leaves it
        async with backends.lease("a#0", "s") as lease:
            assert lease.engine.url == "b"
        await backends.refresh()
        async with backends.lease("a#0", "s") as lease:
            assert lease.engine.url == "a"


async def test_without_any_engine_that_answers_there_is_no_lease() -> None:
    """The error says what was wrong with each."""
    down = [Known("a", up=False), Known("b", up=False)]
    async with opened(down) as backends:
        with pytest.raises(EngineUnavailable, match=r"a is down.*b is down"):
            async with backends.lease(None, "s"):
                raise AssertionError
        assert backends.known() == {}
    async with opened([]) as backends:
        with pytest.raises(EngineUnavailable, match="--engine"):
            async with backends.lease(None, "s"):
                raise AssertionError


async def test_a_running_engine_is_not_asked_again() -> None:
    """Neither by calls nor by the watch: it has answered."""
    known = engines(1)
    async with opened(known) as backends:
        await backends.refresh()
        async with backends.lease(None, "s"):
            pass

    assert known[0].asked == 1


async def test_an_engine_that_is_down_at_the_start_is_found_when_it_comes_up(
    open_house: OpenHouse, words: Words
) -> None:
    """Until then /ready is 503, and calls are 503 with Retry-After; afterwards both by themselves are 200."""
    port = free_port()
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
    port = free_port()
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
            ranks = [f"{url}#0" for url in urls]
            name = next(f"s{at}" for at in count() if pick(ranks, {}, None, f"s{at}") == ranks[0])
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


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port: int = taken.getsockname()[1]
        return port


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
    assert all(len(set(told[at : at + 3])) == 1 for at in range(0, 36, 3))
    assert set(told) == {"0", "1"}
