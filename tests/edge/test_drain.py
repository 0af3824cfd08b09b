"""The end of a gateway: sessions that exist go on for a while, new ones are sent elsewhere, and then it is over."""

import asyncio
import signal
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import cast

import orjson
import pytest
from aiohttp import ClientSession
from aiohttp.test_utils import TestServer

from gateway.app import DRAINING
from gateway.sim import JOURNAL, create_sim
from gateway.sim.keys import CONTROL
from tests.edge.house import HELLO, MODEL_NAME, Application, Json, OpenHouse, Words, serving, until
from tests.edge.process import END_S, Process, flags, gateway

SLOW = "It is a long answer."


@asynccontextmanager
async def running(
    tmp_path: Path, folder: str, drain_timeout_s: float
) -> AsyncIterator[tuple[Process, Application, ClientSession]]:
    """A gateway as a process, before an engine that takes its time."""
    sim = create_sim(token_delay_s=0.05)
    settings = {"model": folder, "model_name": MODEL_NAME, "port": 0, "drain_timeout_s": drain_timeout_s}
    async with (
        serving(sim) as server,
        ClientSession() as http,
        gateway(tmp_path, *flags(**settings, engine=str(server.make_url("")))) as process,
    ):
        await process.ready()
        yield process, sim, http


async def ask(http: ClientSession, process: Process, session: str, script: list[int]) -> tuple[int, Json, str | None]:
    """One turn: status, body, and when to come again."""
    body = orjson.dumps({"messages": HELLO, "vllm_xargs": {"script": script}})
    async with http.post(f"{process.url}/sessions/{session}/v1/chat/completions", data=body) as answer:
        return answer.status, await answer.json(), answer.headers.get("Retry-After")


@pytest.mark.process
async def test_turns_end_new_sessions_are_refused_and_it_exits_with_0(
    tmp_path: Path, tokenizer_folder: str, words: Words
) -> None:
    """As soon as none is in flight; a session that exists may begin one meanwhile."""
    async with running(tmp_path, tokenizer_folder, 20) as (process, sim, http):
        await ask(http, process, "old", words.said("Yes."))
        call = asyncio.ensure_future(ask(http, process, "s", words.said(SLOW * 2)))
        await until(lambda: sim[JOURNAL].running)
        process.child.send_signal(signal.SIGTERM)

        async def is_draining() -> bool:
            async with http.get(f"{process.url}/ready") as answer:
                return answer.status == 503

        await until(is_draining)
        status, body, retry_after = await ask(http, process, "new", words.said("Yes."))
        assert (status, body["error"]["code"], retry_after) == (503, "gateway_draining", "1")
        async with http.post(f"{process.url}/sessions", data=b"{}") as answer:
            assert answer.status == 503
        assert (await ask(http, process, "old", words.said("Yes.")))[0] == 200
        assert not call.done()
        assert (await call)[0] == 200
        assert await process.ended(END_S) == 0


@pytest.mark.process
async def test_a_second_signal_ends_it_at_once(tmp_path: Path, tokenizer_folder: str, words: Words) -> None:
    """Who does not want to wait need not, not even for a pause."""
    async with running(tmp_path, tokenizer_folder, 60) as (process, _, http):
        async with http.post(f"{process.url}/admin/pause", data=b'{"mode": "hold"}') as answer:
            assert answer.status == 200
        call = asyncio.ensure_future(ask(http, process, "s", words.said("Yes.")))
        await asyncio.sleep(0.2)
        process.child.send_signal(signal.SIGTERM)
        await asyncio.sleep(0.2)
        assert not call.done()
        process.child.send_signal(signal.SIGTERM)
        status, body, _ = await call
        assert (status, body["error"]["code"]) == (503, "engine_unavailable")
        assert await process.ended(END_S) == 128 + signal.SIGTERM


@pytest.mark.parametrize(("timeout_s", "status"), [(5.0, 200), (0.1, 503)])
async def test_an_application_in_a_runner_of_ones_own_drains_when_it_is_shut_down(
    open_house: OpenHouse, words: Words, timeout_s: float, status: int
) -> None:
    """Turns end, or are broken off when it takes too long."""
    house = await open_house(sim={"token_delay_s": 0.05}, drain_timeout_s=timeout_s)
    call = asyncio.ensure_future(house.ask("s", HELLO, words.said(SLOW)))
    await until(lambda: house.sim[JOURNAL].running)
    await house.http.server.close()
    assert (await call).status == status


async def test_a_pause_does_not_keep_it_from_its_end(open_house: OpenHouse, words: Words) -> None:
    """However long its lease is; and no engine is left paused behind."""
    house = await open_house(drain_timeout_s=0.2, engine_control=True)
    assert (await house.send("POST", "/admin/pause", mode="hold", lease_s=60)).status == 200
    assert house.sim[CONTROL].paused
    call = asyncio.ensure_future(house.ask("s", HELLO, words.said(SLOW)))
    await asyncio.sleep(0.1)
    began_s = time.monotonic()
    await house.http.server.close()
    assert time.monotonic() - began_s < 2
    assert (await call).status == 503
    assert not house.sim[CONTROL].paused


async def test_an_operator_drains_it_as_a_signal_does(open_house: OpenHouse, words: Words) -> None:
    """Who runs it learns when nothing is left; then no session gets a turn."""
    house = await open_house(sim={"token_delay_s": 0.05}, drain_timeout_s=5.0)
    application = cast(TestServer, house.http.server).app
    call = asyncio.ensure_future(house.ask("s", HELLO, words.said(SLOW)))
    await until(lambda: house.sim[JOURNAL].running)
    assert (await house.send("POST", "/admin/drain")).body == {"draining": True, "in_flight": 1}
    assert (await house.send("POST", "/admin/drain")).status == 200
    assert (await house.ask("new")).status == 503
    assert (await house.call("GET", "/ready")).body == {"status": "draining"}
    assert not application[DRAINING].done.is_set()
    assert (await call).status == 200
    await asyncio.wait_for(application[DRAINING].done.wait(), 1)
    assert (await house.ask("s")).error["code"] == "gateway_draining"
