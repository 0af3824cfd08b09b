"""The end of a gateway: what it has taken on comes to its end, others are sent elsewhere, and then it is over."""

import asyncio
import signal
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import cast
from urllib.parse import urlsplit

import orjson
import pytest
from aiohttp import ClientSession, TCPConnector
from aiohttp.test_utils import TestServer

from gateway.app import DRAINING
from gateway.render.registry import Renderers
from gateway.sim import JOURNAL, create_sim
from gateway.sim.keys import CONTROL
from tests.edge.house import HELLO, IM_END, MODEL_NAME, Application, Json, OpenHouse, Words, serving, until
from tests.edge.process import END_S, Process, flags, gateway
from tests.edge.talkative import Talkative, slow

SLOW = "It is a long answer."


@asynccontextmanager
async def running(
    tmp_path: Path, folder: str, drain_timeout_s: float, **said: object
) -> AsyncIterator[tuple[Process, Application, ClientSession]]:
    """A gateway as a process, before an engine that takes its time."""
    sim = create_sim(token_delay_s=0.05)
    settings = {"model": folder, "model_name": MODEL_NAME, "port": 0, "drain_timeout_s": drain_timeout_s, **said}
    async with (
        serving(sim) as server,
        ClientSession(connector=TCPConnector(limit=0)) as http,
        gateway(tmp_path, *flags(**settings, engine=str(server.make_url("")))) as process,
    ):
        await process.ready()
        yield process, sim, http


async def ask(http: ClientSession, process: Process, session: str, script: list[int]) -> tuple[int, Json, str | None]:
    """One turn: status, body, and when to come again."""
    body = orjson.dumps({"messages": HELLO, "vllm_xargs": {"script": script}})
    async with http.post(f"{process.url}/sessions/{session}/v1/chat/completions", data=body) as answer:
        return answer.status, await answer.json(), answer.headers.get("Retry-After")


async def listen(http: ClientSession, process: Process, session: str, script: list[int]) -> str:
    """One streamed turn: all that is said."""
    body = orjson.dumps({"messages": HELLO, "stream": True, "vllm_xargs": {"script": script}})
    async with http.post(f"{process.url}/sessions/{session}/v1/chat/completions", data=body) as answer:
        assert answer.status == 200
        return await answer.text()


async def refuses(process: Process) -> bool:
    """Whether it takes no connections any more."""
    address = urlsplit(process.url)
    try:
        _, writer = await asyncio.open_connection(address.hostname, address.port)
    except ConnectionRefusedError:
        return True
    writer.close()
    return False


class Kept:
    """A connection that was made before."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    @classmethod
    async def open(cls, process: Process) -> "Kept":
        address = urlsplit(process.url)
        return cls(*await asyncio.open_connection(address.hostname, address.port))

    async def call(self, method: str, path: str, body: bytes = b"") -> tuple[int, dict[str, str], Json]:
        """Status, headers by lower-case name, and body."""
        head = f"{method} {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n"
        self._writer.write(head.encode() + body)
        first, *lines = (await self._reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")[:-2]
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
        content = await self._reader.readexactly(int(headers["content-length"]))
        return int(first.split()[1]), headers, orjson.loads(content)

    async def is_closed(self) -> bool:
        """Whether the other side has hung up."""
        closed = await asyncio.wait_for(self._reader.read(), END_S) == b""
        self._writer.close()
        return closed


@pytest.mark.process
async def test_forty_calls_under_way_all_come_to_their_end(tmp_path: Path, tokenizer_folder: str, words: Words) -> None:
    """Those that are sampled and those that wait for a rank, streamed or not; it exits with 0.

    Nobody else gets in, and who is in already is sent away when it wants another turn.
    """
    async with running(tmp_path, tokenizer_folder, 60, rank_turns=16) as (process, sim, http):
        await ask(http, process, "old", words.said("Yes."))
        kept, other = await Kept.open(process), await Kept.open(process)
        assert (await kept.call("GET", "/ready"))[0] == 200
        await other.call("GET", "/health")
        script = words.said(SLOW)
        whole = [asyncio.ensure_future(ask(http, process, f"w{index}", script)) for index in range(20)]
        streamed = [asyncio.ensure_future(listen(http, process, f"s{index}", script)) for index in range(20)]

        async def all_in() -> bool:
            async with http.get(f"{process.url}/metrics") as answer:
                lines = [line.rsplit(" ", 1) for line in (await answer.text()).splitlines() if line[0] != "#"]
            waiting = sum(float(value) for name, value in lines if name.startswith("gateway_queue_turns{"))
            return (sim[JOURNAL].running, waiting) == (16, 24)

        await until(all_in, within_s=10)
        process.child.send_signal(signal.SIGTERM)
        await until(partial(refuses, process), within_s=10)
        assert not any(call.done() for call in streamed)

        assert (await kept.call("GET", "/health"))[0] == 200
        assert (await kept.call("GET", "/ready"))[::2] == (503, {"status": "draining"})
        assert (await kept.call("GET", "/sessions/old"))[0] == 200
        for client, session in ((kept, "old"), (other, "new")):
            body = orjson.dumps({"messages": HELLO})
            status, headers, told = await client.call("POST", f"/sessions/{session}/v1/chat/completions", body)
            assert (status, told["error"]["code"]) == (503, "gateway_draining")
            assert (headers["retry-after"], headers["connection"].lower()) == ("1", "close")
            assert await client.is_closed()

        for status, answer, _ in await asyncio.gather(*whole):
            assert (status, answer["choices"][0]["message"]["content"]) == (200, SLOW)
        for text in await asyncio.gather(*streamed):
            events = [orjson.loads(line[6:]) for line in text.splitlines() if line.startswith("data: {")]
            assert "".join(event["choices"][0]["delta"].get("content") or "" for event in events) == SLOW
            assert text.endswith("data: [DONE]\n\n")
        assert await process.ended(END_S) == 0


@pytest.mark.process
async def test_what_a_pause_holds_is_cut_when_its_time_is_up_and_told_so(
    tmp_path: Path, tokenizer_folder: str, words: Words
) -> None:
    """503, with when to come again; the exit status says that something was cut."""
    async with running(tmp_path, tokenizer_folder, 0.5) as (process, _, http):
        async with http.post(f"{process.url}/admin/pause", data=b'{"mode": "hold"}') as answer:
            assert answer.status == 200
        calls = [asyncio.ensure_future(ask(http, process, f"s{index}", words.said("Yes."))) for index in range(3)]
        await asyncio.sleep(0.2)
        process.child.send_signal(signal.SIGINT)
        for status, body, retry_after in await asyncio.gather(*calls):
            assert (status, body["error"]["code"], retry_after) == (503, "gateway_draining", "1")
        assert await process.ended(END_S) == 3


@pytest.mark.process
async def test_a_stream_that_is_cut_says_so_and_its_turn_is_kept_as_aborted(
    tmp_path: Path, tokenizer_folder: str, words: Words
) -> None:
    """An error event in the place of its end; the turn is logged as what it is."""
    async with running(tmp_path, tokenizer_folder, 0.5) as (process, sim, http):
        call = asyncio.ensure_future(listen(http, process, "s", words.said(SLOW * 5)))
        await until(lambda: sim[JOURNAL].running)
        await asyncio.sleep(0.2)
        process.child.send_signal(signal.SIGTERM)
        text = await call
        assert "[DONE]" not in text
        *_, last = [line for line in text.splitlines() if line.startswith("data: ")]
        assert orjson.loads(last[6:])["error"]["code"] == "gateway_draining"
        assert await process.ended(END_S) == 3
        (turn,) = [line for line in map(orjson.loads, process.errors.splitlines()) if line["event"] == "turn"]
        assert turn["status"] == "aborted"


async def test_an_answer_that_is_read_slowly_is_waited_for_though_its_turn_has_ended(
    open_house: OpenHouse, renderers: Renderers
) -> None:
    """It has been taken on, and is not given before all of it has left."""
    talkative = Talkative(renderers.get({}).renderer)
    house = await open_house(renderer=talkative, narrow=True, drain_timeout_s=30.0)
    draining = cast(TestServer, house.http.server).app[DRAINING]
    async with slow(house, "s", [*[1000] * 200, IM_END]) as client:
        await until(lambda: house.turns("s"))
        assert draining.in_flight == 0
        draining.close()
        await asyncio.sleep(0.2)
        assert not draining.done.is_set()
        reads = asyncio.ensure_future(client.take_all())
        await asyncio.wait_for(draining.done.wait(), 10)
        await until(lambda: client.read.endswith(b"data: [DONE]\n\n\r\n0\r\n\r\n"))
        reads.cancel()
    assert not draining.broken


@pytest.mark.process
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_second_signal_ends_it_at_once(
    tmp_path: Path, tokenizer_folder: str, words: Words, number: signal.Signals
) -> None:
    """Who does not want to wait need not, not even for a pause; the exit status is as if it had been killed."""
    async with running(tmp_path, tokenizer_folder, 60) as (process, _, http):
        async with http.post(f"{process.url}/admin/pause", data=b'{"mode": "hold"}') as answer:
            assert answer.status == 200
        call = asyncio.ensure_future(ask(http, process, "s", words.said("Yes.")))
        await asyncio.sleep(0.2)
        process.child.send_signal(signal.SIGTERM)
        await until(partial(refuses, process))
        assert not call.done()
        process.child.send_signal(number)
        status, body, _ = await call
        assert (status, body["error"]["code"]) == (503, "gateway_draining")
        assert await process.ended(END_S) == 128 + number


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
    assert (await house.send("POST", "/admin/drain")).status == 200  # which opens nothing again
    assert (await house.ask("s")).error["code"] == "gateway_draining"
