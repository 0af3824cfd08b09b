"""What docs/fleet.md claims of its two balancers: Debian's own packages, before gateways that are processes."""

import asyncio
import shutil
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import suppress
from io import BytesIO
from pathlib import Path
from typing import Any
from urllib.parse import quote

import aiohttp
import orjson
import pytest

from gateway.wire.sse import SSEDecoder
from tests.deploy import fleet
from tests.deploy.fleet import Balancer, Client, Engine, Gateway, HAProxy, Json, Nginx, until

SESSIONS = 1000
HELLO = [{"role": "user", "content": "Hello?"}]
TEXT = "one two three four five six seven eight nine ten"

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
    tmp_path.chmod(0o755)
    for parent in (tmp_path.parent, tmp_path.parent.parent):
        parent.chmod(0o755)
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


def body(text: str = TEXT, **fields: Any) -> Json:
    """A turn whose answer is settled."""
    script = fleet.script(text)
    return {"messages": HELLO, "vllm_xargs": {"script": script}, "return_token_ids": True, **fields}


def chat(session_id: str) -> str:
    """Where a session's turns are asked for."""
    return f"/sessions/{session_id}/v1/chat/completions"


async def each(names: Iterable[str], ask: Callable[[str], Any]) -> list[Any]:
    """Ask for each of many, 32 at a time; the answers in the order of the names."""
    turn = asyncio.Semaphore(32)

    async def one(name: str) -> Any:
        async with turn:
            return await ask(name)

    return await asyncio.gather(*map(one, names))


async def made(client: Client, names: Iterable[str]) -> set[int]:
    """Make sessions through the balancer, which reads their names in the header; the statuses of the answers."""
    return set(await each(names, lambda name: client.status("/sessions", {"session_id": name}, X_Session_ID=name)))


async def read(answer: aiohttp.ClientResponse) -> AsyncIterator[Json | None]:
    """The events of a stream as they come; ``None`` for its end."""
    decoder = SSEDecoder()
    async for data in answer.content.iter_any():
        for payload in decoder.feed(data):
            yield None if payload == b"[DONE]" else orjson.loads(payload)


async def next_ids(events: AsyncIterator[Json | None]) -> list[int]:
    """The ids that the next event with ids brings."""
    async for event in events:
        assert event is not None, "the stream ended"
        assert "error" not in event, event
        for choice in event["choices"]:
            if choice.get("token_ids"):
                ids: list[int] = choice["token_ids"]
                return ids
    raise AssertionError("the stream broke off")


async def test_a_thousand_sessions_stay_where_they_hash(balancer: Balancer, client: Client, three: Fleet):
    """Named in the header, in the path, or in the path with %2F: each is found by every name, on one gateway."""
    names = [f"{balancer.program}/stay/task-{number}" for number in range(SESSIONS)]
    assert await made(client, names) == {201}

    held = [{name for name in await client.sessions(one) if name in set(names)} for one in three]
    shares = sorted(len(share) for share in held)
    print(f"{balancer.program}: {SESSIONS} sessions on three gateways: {shares}")
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
        print(f"{balancer.program}: a fourth gateway moved {len(moved)} of {SESSIONS}")
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


async def first_ids(client: Client, name: str, *, stream: bool) -> None:
    """Ask for a turn, and leave after its first ids or, where it is not streamed, never."""
    async with client.post(chat(name), body(stream=stream)) as answer:
        if stream:
            await next_ids(read(answer))
            answer.close()
        else:
            await answer.read()


async def test_no_turn_is_sampled_twice_when_its_gateway_dies(
    balancer: Balancer, client: Client, engine: Engine, three: Fleet
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

    assert await each(its, lambda name: client.status(chat(name), body())) == [200] * len(its)
    assert set(its) <= await client.sessions(last)


async def outcome(client: Client, name: str, *, stream: bool) -> int | None:
    """What a call is answered with; ``None`` for a connection that ends without an answer."""
    try:
        return await client.status(chat(name), body(stream=stream))
    except aiohttp.ServerDisconnectedError:
        return None


async def test_a_call_that_names_no_session_is_told_how_to(balancer: Balancer, client: Client, http: Any):
    """It would be sent anywhere, and its next turn elsewhere; the list of models is the same everywhere."""
    async with client.post("/v1/chat/completions", body()) as answer:
        assert answer.status == 400
        assert (await answer.json())["error"]["code"] == "session_not_named"
    assert await client.status("/sessions", {"session_id": "s"}) == 400
    async with http.get(f"{balancer.url}/v1/models") as answer:
        assert (await answer.json())["data"][0]["id"] == "rollout-gateway/demo"


async def test_what_one_gateway_says_of_itself_is_not_offered(client: Client):
    """Metrics, the operator's routes and listings are asked of each gateway; no detour leads there."""
    for path in (
        "/metrics",
        "/admin/engines",
        "/sessions",
        "/trajectories",
        "/sessions/../admin/engines",
        "/sessions/%2e%2e/metrics",
        "/sessions/a/../../metrics",
        "/v1/../metrics",
        "//metrics",
    ):
        assert await client.status(path) in (400, 404), path
    assert await client.status("/admin/pause", {"mode": "hold"}) == 404
    assert await client.status("/score", {}) == 404


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
