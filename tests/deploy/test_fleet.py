"""What docs/fleet.md claims of its two balancers: Debian's own packages, before gateways that are processes."""

import asyncio
import logging
import shlex
import shutil
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from io import BytesIO
from pathlib import Path
from typing import Any
from urllib.parse import quote

import aiohttp
import orjson
import pytest

from gateway.client import AsyncGatewayClient
from tests.deploy import fleet
from tests.deploy.fleet import Engine, Gateway, Json, until
from tests.deploy.fleet_agents import (
    HELLO,
    TEXT,
    Client,
    body,
    chat,
    each,
    first_ids,
    going_on,
    made,
    next_ids,
    outcome,
    read,
    share_in_time,
)
from tests.deploy.fleet_balancers import DEPLOY, DETOURS, Balancer, HAProxy, Nginx
from tests.readme.documents import texts_of

log = logging.getLogger(__name__)
SESSIONS = 1000
Fleet = list[Gateway]


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    with fleet.engine() as one:
        yield one


@pytest.fixture(scope="module")
def all_four(engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    with fleet.gateways(4, engine.url, tmp_path_factory.mktemp("gateways")) as four:
        yield four


@pytest.fixture
def three(all_four: Fleet) -> Fleet:
    return all_four[:3]


@pytest.fixture(params=[HAProxy, Nginx], ids=lambda kind: kind.program)
async def balancer(
    request: pytest.FixtureRequest, three: Fleet, engine: Engine, tmp_path: Path
) -> AsyncIterator[Balancer]:
    kind = request.param
    assert shutil.which(kind.program), f"{kind.program} is missing: run tests/deploy/environment.sh"
    engine.turnstile.open()
    one = kind(tmp_path, three)
    try:
        await one.ready()
        yield one
    finally:
        one.end()


@pytest.fixture
async def http() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=64)) as session:
        yield session


@pytest.fixture
def client(http: aiohttp.ClientSession, balancer: Balancer) -> Client:
    return Client(http, balancer.url)


async def test_a_thousand_sessions_stay_where_they_hash(balancer: Balancer, client: Client, three: Fleet):
    """Named in the header, in the path, or in the path with %2F: each is found by every name, on one gateway."""
    names = [f"{balancer.program}/stay/task-{number}" for number in range(SESSIONS)]
    assert await made(client, names) == {201}

    held = [{name for name in await client.sessions(one) if name in set(names)} for one in three]
    shares = sorted(len(share) for share in held)
    log.info("%s: %d sessions on three gateways: %s", balancer.program, SESSIONS, shares)
    assert sum(shares) == len(set.union(*held)) == SESSIONS
    assert shares[0] > SESSIONS / 3 * 0.75

    assert set(await each(names, lambda name: client.status(f"/sessions/{name}"))) == {200}
    assert set(await each(names, lambda name: client.status(f"/sessions/{name.replace('/', '%2F')}"))) == {200}
    parts = ("turns", "trajectories")
    assert set(await each(names[:50], lambda name: client.status(f"/sessions/{name}/{parts[0]}"))) == {200}
    assert set(await each(names[:50], lambda name: client.status(f"/sessions/{name}/{parts[1]}"))) == {200}
    assert set(await each(names[:50], lambda name: client.status(f"/sessions/{name}/finish", {}))) == {200}


async def test_a_turn_by_path_is_carried_on_by_the_header(balancer: Balancer, client: Client, http: Any):
    """Whichever way a session is named, its history is there."""

    async def two_turns(name: str) -> list[str]:
        async with client.post(chat(quote(name, safe="")), body()) as answer:
            message = (await answer.json())["choices"][0]["message"]
        messages = [*HELLO, message, {"role": "user", "content": "And then?"}]
        by_header = {**body(), "messages": messages}
        async with client.post("/v1/chat/completions", by_header, X_Session_ID=name) as answer:
            assert answer.status == 200
            await answer.read()
        async with http.get(f"{balancer.url}/sessions/{quote(name)}/turns") as answer:
            return [turn["how"] for turn in (await answer.json())["data"]]

    names = [f"{balancer.program}/turns/{number}, 1+1 = 2 %2F v1 é?" for number in range(40)]
    assert {tuple(hows) for hows in await each(names, two_turns)} == {("rendered", "bridged")}


async def test_events_arrive_as_they_are_sent(balancer: Balancer, client: Client, engine: Engine):
    """An id is sampled only when the client has read the one before: held back by anybody, the stream would not end."""
    engine.turnstile.shut()
    engine.turnstile.permit()
    async with asyncio.timeout(fleet.LIMIT_S), client.post(chat("lockstep"), body(stream=True)) as answer:
        events = read(answer)
        ids = await next_ids(events)
        while len(ids) < len(fleet.script(TEXT)):
            engine.turnstile.permit()
            ids += await next_ids(events)
        rest = [event async for event in events]

    assert fleet.script(TEXT) == ids
    assert len(ids) > 10
    assert rest[-1] is None


async def test_events_are_not_gathered_on_their_way(balancer: Balancer, client: Client, engine: Engine):
    """Sampled one by one, a pause apart, each is read before the next one is sampled: not two at a time.

    One stream of ten is enough: this machine may be late by itself, and events in pairs are late in each of them.
    """
    shares: list[float] = []
    while len(shares) < 10 and max(shares, default=0) <= 0.8:
        shares.append(await share_in_time(client, engine, f"{balancer.program}/paced/{len(shares)}"))
    log.info("%s: read before the next one was sampled: %s", balancer.program, shares)
    assert max(shares) > 0.8


async def test_a_fourth_gateway_takes_a_quarter_and_a_reload_disturbs_no_stream(
    balancer: Balancer, client: Client, http: Any, all_four: Fleet, engine: Engine
):
    """Sessions that move all go to the new one; a stream that runs goes on to its end."""
    names = [f"{balancer.program}/grow/{number}" for number in range(SESSIONS)]
    assert await made(client, names) == {201}
    before = [await client.sessions(one) for one in all_four]

    engine.turnstile.shut()
    engine.turnstile.permit()
    async with asyncio.timeout(fleet.LIMIT_S), client.post(chat("through"), body(stream=True)) as answer:
        events = read(answer)
        await next_ids(events)
        await balancer.reload(all_four)
        engine.turnstile.open()
        assert [event async for event in events][-1] is None

    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=64)) as anew:
        fresh = Client(anew, balancer.url)
        found = await each(names, lambda name: fresh.status(f"/sessions/{name}"))
        moved = [name for name, status in zip(names, found, strict=True) if status == 404]
        log.info("%s: a fourth gateway moved %d of %d", balancer.program, len(moved), SESSIONS)
        assert set(found) == {200, 404}
        assert SESSIONS * 0.18 < len(moved) < SESSIONS * 0.32

        assert await made(fresh, moved) == {201}
        after = [await fresh.sessions(one) for one in all_four]
    assert after[:3] == [known | ({"through"} & new) for known, new in zip(before[:3], after[:3], strict=True)]
    assert after[3] - before[3] == set(moved)


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
async def test_a_client_that_hangs_up_stops_the_engine(
    balancer: Balancer, client: Client, engine: Engine, *, stream: bool
):
    """Whether it has heard of its answer or not."""
    name = f"{balancer.program}/leaves/{stream}"
    engine.turnstile.shut()
    asking = asyncio.ensure_future(first_ids(client, name, stream=stream))
    await until(lambda: engine.calls(name), "the call at the engine")
    engine.turnstile.permit()
    if stream:
        await asyncio.wait_for(asking, fleet.LIMIT_S)  # it closes its connection in the middle of the stream
    else:
        asking.cancel()
        with suppress(asyncio.CancelledError):
            await asking
    (call,) = engine.calls(name)
    await until(lambda: call.disconnected, "the end of the call at the engine")
    assert not call.finished


async def test_no_turn_is_sampled_twice_when_its_gateway_dies(
    balancer: Balancer, client: Client, http: Any, engine: Engine, three: Fleet
):
    """Its sessions are 503 until it is back, on no other gateway meanwhile, and no call of theirs was made twice."""
    names = [f"{balancer.program}/dies/{number}" for number in range(24)]
    assert await made(client, names) == {201}
    last = three[2]
    its = sorted(set(names) & await client.sessions(last))[:6]
    assert len(its) >= 2
    others = [await client.sessions(one) for one in three[:2]]

    engine.turnstile.shut()
    engine.turnstile.permit()
    async with client.post(chat(its[0]), body(stream=True)) as begun:
        events = read(begun)
        await next_ids(events)
        asking = [asyncio.ensure_future(outcome(client, name, stream=at % 2 == 0)) for at, name in enumerate(its[1:])]
        await until(lambda: all(engine.calls(name) for name in its), "the calls at the engine")
        last.kill()
        with pytest.raises(aiohttp.ClientPayloadError):
            await next_ids(events)
    try:
        assert set(await asyncio.wait_for(asyncio.gather(*asking), fleet.LIMIT_S)) <= {502, 503, None}
        engine.turnstile.open()
        for name in its:
            async with client.post(chat(name), body()) as answer:
                assert answer.status == 503
                assert answer.headers["Retry-After"] == "5"
                assert (await answer.json())["error"]["code"] == "gateway_away"
        assert [len(engine.calls(name)) for name in its] == [1] * len(its)
        assert [await client.sessions(one) for one in three[:2]] == others
    finally:
        last.start()
        await asyncio.to_thread(last.wait)

    assert await each(its, lambda name: client.status(chat(name), going_on())) == [200] * len(its)
    assert set(its) <= await client.sessions(last)
    async with http.get(f"{last.url}/sessions/{its[0]}/turns") as answer:
        assert [turn["reason"] for turn in (await answer.json())["data"]] == ["first_turn"]
    async with http.get(f"{last.url}/sessions/{its[0]}") as answer:
        assert (await answer.json())["group_id"] is None


async def test_a_call_that_names_no_session_is_told_how_to(balancer: Balancer, client: Client, http: Any):
    """It would be sent anywhere, and its next turn elsewhere; the list of models is the same everywhere."""
    async with client.post("/v1/chat/completions", body()) as answer:
        assert answer.status == 400
        assert (await answer.json())["error"]["code"] == "session_not_named"
    assert await client.status("/sessions", {"session_id": "s"}) == 400
    async with http.get(f"{balancer.url}/v1/models") as answer:
        assert (await answer.json())["data"][0]["id"] == "rollout-gateway/demo"


async def test_a_session_is_made_and_found_as_the_page_says(balancer: Balancer):
    """Its commands, as they stand there."""
    (commands,) = texts_of(DEPLOY.parent / "docs" / "fleet.md", "bash")
    for line in commands.strip().splitlines():
        here = line.replace(":8080", f":{balancer.port}").replace("task/17", f"{balancer.program}/17")
        words = shlex.split(here.replace("task%2F17", f"{balancer.program}%2F17"))
        process = await asyncio.create_subprocess_exec(
            *words, stdout=asyncio.subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        said, _ = await process.communicate()
        assert orjson.loads(said)["session_id"] == f"{balancer.program}/17"


async def test_a_session_that_our_client_makes_is_where_its_path_leads(balancer: Balancer):
    """Whatever letters its name has: the header and the path hash alike."""
    async with AsyncGatewayClient(balancer.url) as trainer:
        for number in range(24):
            session = await trainer.session(f"{balancer.program}/fläche € {number}", group_id="ours")
            assert (await session.show())["group_id"] == "ours"


async def test_what_one_gateway_says_of_itself_is_not_offered(client: Client):
    """Metrics, the operator's routes and listings are asked of each gateway; who names a session gets no further."""
    for path in ("/metrics", "/admin/engines", "/sessions", "/trajectories"):
        assert await client.status(path) == 404, path
        assert await client.status(path, X_Session_ID="s") == 404, path
    for path in ("/admin/pause", "/score"):
        assert await client.status(path, {"mode": "hold"}, X_Session_ID="s") == 404, path


@pytest.mark.parametrize("place", ["/admin/engines", "/metrics"])
async def test_no_detour_leads_there(client: Client, place: str):
    """However the path is written, and whether or not it names a session besides."""
    for detour in DETOURS:
        for path in (detour + place, detour + place.replace("/", "%2f"), detour + place.replace("m", "%6d")):
            assert await client.status(path) in (400, 404), path
            assert await client.status(path, X_Session_ID="s") in (400, 404), path


async def test_a_body_as_large_as_the_gateway_takes_goes_through(balancer: Balancer, http: Any):
    """The limit is the gateway's, and so are the words in which it is said."""

    async def sent(megabytes: int) -> tuple[int, Json]:
        large = BytesIO(orjson.dumps(body(padding="x" * (megabytes << 20))))
        url, headers = f"{balancer.url}{chat('long')}", {"Content-Type": "application/json"}
        async with http.post(url, data=large, headers=headers) as answer:
            return answer.status, await answer.json()

    assert (await sent(63))[0] == 200
    status, refused = await sent(65)
    assert (status, refused["error"]["code"]) == (413, "request_too_large")
