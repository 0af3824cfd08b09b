"""Each call on a route of turns is counted once, by what it came to; and what else is counted of it."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from itertools import count
from typing import get_args

import aiohttp
import orjson
import pytest
from aiohttp import web
from prometheus_client.parser import text_string_to_metric_families

from gateway.edge.metric_table import Result
from gateway.edge.server import Server
from tests.edge.house import HELLO, House, OpenHouse, Words, until, user, waiting
from tests.edge.streams import reading
from tests.edge.suspensions import Suspensions

Answered = Callable[[Server, web.Request, object], Awaitable[web.StreamResponse]]
PATH = "/v1/chat/completions"


async def results(house: House, calls: int = 0, **headers: str) -> Counter[str]:
    """How many calls came to what, once so many are counted: a client is answered before its call has ended."""

    async def counted() -> bool:
        return (await results(house, **headers)).total() >= calls

    if calls:
        await until(counted)
    text = (await house.call("GET", "/metrics", headers=headers)).body
    families = {family.name: family for family in text_string_to_metric_families(text)}
    samples = families["gateway_calls"].samples
    assert {sample.labels["dialect"] for sample in samples} == {"chat"}
    return Counter({sample.labels["result"]: int(sample.value) for sample in samples if sample.value})


async def test_a_call_is_answered_or_replayed(house: House, words: Words) -> None:
    """Streamed or not; one that asks for several answers is one call."""
    await house.ask("s", HELLO, words.said("Hi."), n=2)
    async with reading(house, "s", HELLO, words.said("Hi.")) as (_, chunks):
        async for _chunk in chunks:
            pass
    for _ in range(3):
        await house.ask("s", HELLO, words.said("Hi."), headers={"Idempotency-Key": "k"})

    assert await results(house, 5) == {"answered": 3, "replayed": 2}
    assert await house.metric("gateway_turns_total", dialect="chat", status="complete") == 4
    assert await house.metric("gateway_retries_total", outcome="replayed") == 2


async def test_a_retry_that_joins_is_replayed(open_house: OpenHouse, words: Words) -> None:
    """What it gets was sampled for another call."""
    house = await open_house(sim={"token_delay_s": 0.02})
    key = {"Idempotency-Key": "k"}
    async with waiting(house, "s", HELLO, words.said("Hello, you."), headers=key) as first:
        await until(lambda: house.journal)
        again = await house.ask("s", HELLO, words.said("Hello, you."), headers=key)
        assert (await first).body["choices"] == again.body["choices"]

    assert await results(house, 2) == {"answered": 1, "replayed": 1}
    assert await house.metric("gateway_retries_total", outcome="joined") == 1
    assert await house.metric("gateway_retries_total", outcome="replayed") == 0


async def test_a_call_is_refused_by_the_fault_of_its_caller(open_house: OpenHouse, words: Words) -> None:
    """A wrong key, a body that is too large, that is not what it says, that says nothing, a session that has ended."""
    admin = {"Authorization": "Bearer admin"}
    house = await open_house(agent_key="agent", admin_key="admin", max_body_bytes=100_000)
    assert (await house.ask("s", headers={"Authorization": "Bearer other"})).status == 401
    assert (await house.ask("s", [user("x" * 200_000)], headers=admin)).status == 413
    assert (await house.call("POST", PATH, data=b"{", headers=admin)).status == 400
    assert (await house.call("POST", PATH, data=b"no", headers={**admin, "Content-Encoding": "gzip"})).status == 400
    assert (await house.ask("s", headers=admin)).status == 200
    assert (await house.call("POST", "/sessions/s/finish", data=b"{}", headers=admin)).status == 200
    assert (await house.ask("s", headers=admin)).status == 409

    assert await results(house, 6, **admin) == {"refused": 5, "answered": 1}


async def test_a_call_fails_by_nobody_elses_fault(house: House, words: Words) -> None:
    """Whether that is said as an answer or within a stream that had begun."""
    house.faults.inject("no_logprobs")
    assert (await house.ask("s", HELLO, words.said("Hi."))).status == 502
    house.faults.inject("cut", after=3)
    async with reading(house, "s", HELLO, words.said("Hello, you there.")) as (streamed, chunks):
        async for _chunk in chunks:
            pass
    assert streamed.error is not None

    assert await results(house, 2) == {"failed": 2}
    assert await house.metric("gateway_aborts_total", reason="infra") == 1


async def test_a_client_that_hangs_up_has_left(open_house: OpenHouse, words: Words) -> None:
    """Nothing is told, and what was sampled is an aborted turn."""
    house = await open_house(sim={"token_delay_s": 0.01})
    async with waiting(house, "s", HELLO, [1000] * 200):
        await until(lambda: house.journal)
        await asyncio.sleep(0.1)
    await house.idle()

    assert await results(house, 1) == {"left": 1}
    assert await house.metric("gateway_aborts_total", reason="client_gone") == 1
    assert await house.metric("gateway_turns_total", status="aborted") == 1


async def test_other_routes_are_no_calls(house: House) -> None:
    """Nor is another method, or a path that is none; their errors are counted."""
    assert (await house.call("GET", "/v1/models")).status == 200
    assert (await house.call("GET", PATH)).status == 405
    assert (await house.call("POST", "/nothing/v1/chat/completions")).status == 404

    assert await results(house) == {}
    assert await house.metric("gateway_errors_total", code="invalid_request") == 2


@pytest.mark.parametrize("stream", [False, True])
async def test_a_call_counts_once_wherever_it_is_cancelled(
    house: House, words: Words, monkeypatch: pytest.MonkeyPatch, *, stream: bool
) -> None:
    """At each of the awaits of its handler, from the key to the last byte: answered only where the client has it all."""
    answer: Answered = Server._answer
    suspensions = Suspensions(0)

    async def stepped(server: Server, request: web.Request, handler: object) -> web.StreamResponse:
        if request.method == "GET":
            return await answer(server, request, handler)
        response: web.StreamResponse = await suspensions.run(answer(server, request, handler))  # type: ignore[arg-type]
        return response

    monkeypatch.setattr(Server, "_answer", stepped)
    body = orjson.dumps({"messages": HELLO, "stream": stream, "vllm_xargs": {"script": words.said("Hi you.")}})
    seen = Counter[str]()
    for at in count():
        suspensions = Suspensions(at)
        told = ""
        try:
            told = str((await house.call("POST", f"/sessions/s{at}{PATH}", data=body)).body)
        except aiohttp.ClientError:
            pass
        now = await results(house, at + 1)
        await house.idle()
        (result,) = now - seen
        assert now.total() == at + 1
        assert result in get_args(Result)
        assert result != "answered" or "stop" in told
        seen = now
        if not suspensions.reached:
            assert result == "answered"
            break

    assert at > 5
    assert seen.keys() == {"left", "answered"}
