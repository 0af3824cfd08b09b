"""Clients that read slowly: little waits for them, the engine waits instead, and who takes nothing is gone."""

import asyncio
import socket
import time
from collections.abc import Iterator
from functools import partial

import aiohttp
import orjson
import pytest

from gateway.render.registry import Renderers
from gateway.sim import JOURNAL
from gateway.wire.sse import SSEDecoder
from tests.edge.house import HELLO, IM_END, NARROW_BYTES, House, Json, OpenHouse, until
from tests.edge.marks import retry
from tests.edge.streams import stream
from tests.edge.talkative import CHARS, SlowClient, Talkative, slow

pytestmark = pytest.mark.process  # hundreds of kilobytes a test, at speeds that a loaded machine changes

LONG = [1000] * 9000
"""Ids that say more than 2 MB."""
BUFFER_BYTES = 256 * 1024


def _narrow_socket(address: aiohttp.AddrInfoType) -> socket.socket:
    family, kind, protocol, *_ = address
    connection = socket.socket(family, kind, protocol)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8 * NARROW_BYTES)
    return connection


@pytest.fixture(autouse=True)
def narrow_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the kernel take little of what an engine sends, which grows to megabytes otherwise."""
    connector = partial(aiohttp.TCPConnector, socket_factory=_narrow_socket)
    monkeypatch.setattr("gateway.edge.engine.aiohttp.TCPConnector", connector)


@pytest.fixture
async def talkative(open_house: OpenHouse, renderers: Renderers) -> House:
    """A gateway that makes much of each id, and soon takes a client for gone."""
    return await open_house(renderer=Talkative(renderers.get({}).renderer), stream_stall_s=1.0, narrow=True)


async def waiting_bytes(house: House) -> float:
    """What the gateway says that it holds for the client that it holds most for."""
    return await house.metric("gateway_stream_buffered_bytes_max")


async def resting(house: House) -> tuple[int, float]:
    """Wait until much is held and the engine gets rid of nothing more; how far it came, and the most that was held."""
    emitted, since, most_bytes = -1, time.monotonic(), 0.0
    while time.monotonic() - since < 0.1 or most_bytes < BUFFER_BYTES / 4:
        if len(house.journal[0].emitted) != emitted:
            emitted, since = len(house.journal[0].emitted), time.monotonic()
        assert not house.journal[0].disconnected
        most_bytes = max(most_bytes, await waiting_bytes(house))
        await asyncio.sleep(0.01)
    return emitted, most_bytes


@pytest.mark.parametrize("asked", [{}, {"logprobs": True, "top_logprobs": 20}], ids=["text", "evidence"])
async def test_what_waits_for_a_client_that_sips_is_bounded_and_then_it_counts_as_gone(
    talkative: House, asked: Json
) -> None:
    """The engine is not read meanwhile and stopped in the end; what was sampled is an aborted turn; others do not notice."""
    house = talkative
    async with slow(house, "s", LONG, **asked) as client:
        sipping = asyncio.ensure_future(client.sip(1.0))
        await until(lambda: house.journal and house.journal[0].emitted)
        emitted, most_bytes = await resting(house)
        assert 0 < emitted < len(LONG)
        assert most_bytes <= BUFFER_BYTES

        other = await stream(house, "t", HELLO, [*LONG[:2000], IM_END])
        assert other.done
        assert len(other.message["content"]) == 2000 * CHARS

        await until(lambda: house.journal[0].disconnected, within_s=5)
        sipping.cancel()
    await house.idle()
    assert await waiting_bytes(house) == await house.metric("gateway_streams") == 0
    assert [turn["ended_by"] for turn in await house.turns("s")] == ["client_gone"]
    assert [turn["ended_by"] for turn in await house.turns("t")] == ["stop"]


async def test_a_client_that_never_ceases_to_read_gets_everything(open_house: OpenHouse, renderers: Renderers) -> None:
    """However slow it is: the time in which nothing can be sent counts, not the time that a write takes."""
    house = await open_house(renderer=Talkative(renderers.get({}).renderer), stream_stall_s=0.5, narrow=True)
    async with slow(house, "s", [*LONG[:2000], IM_END]) as client:
        begun = time.monotonic()
        while not client.read.endswith(b"0\r\n\r\n"):
            assert await client.take(8192)
            await asyncio.sleep(0.01)
        assert time.monotonic() - begun > 2 * 0.5

    assert len(said_to(client)) == 2000 * CHARS
    (turn,) = await house.turns("s")
    assert (turn["status"], turn["delivered"]) == ("complete", True)


async def test_a_recorded_answer_takes_no_more_room_than_one_that_is_sampled(talkative: House) -> None:
    """A retry that reads slowly is sent it bit by bit; and when it stalls, the next one gets it again."""
    script = [*LONG[:4000], IM_END]
    first = await stream(talkative, "s", HELLO, script)
    async with slow(talkative, "s", script, retry(1)) as client:
        await until(lambda: waits(talkative))
        assert await client.take(100)
        assert await waiting_bytes(talkative) <= BUFFER_BYTES
        await until(lambda: nobody_reads(talkative), within_s=5)

    again = await stream(talkative, "s", HELLO, script, headers=retry(2))
    assert again.headers["x-turn-id"] == first.headers["x-turn-id"]
    assert again.message == first.message
    assert len(talkative.journal) == 1


async def test_comments_are_no_sign_of_life(open_house: OpenHouse, renderers: Renderers) -> None:
    """A client that takes nothing is gone after its time, though only they are written to it."""
    renderer = Talkative(renderers.get({}).renderer)
    house = await open_house(renderer=renderer, stream_stall_s=0.4, keep_alive_s=0.02, narrow=True)
    house.faults.inject("stall", after=100)
    async with slow(house, "s", LONG):
        await until(lambda: house.journal and house.journal[0].disconnected, within_s=3)
    await house.idle()
    assert [turn["completion_tokens"] for turn in await house.turns("s")] == [100]


@pytest.mark.parametrize("asked", [{"stream": True}, {"stream": False}], ids=["streamed", "whole"])
async def test_an_answer_whose_end_does_not_leave_has_not_arrived(talkative: House, asked: Json) -> None:
    """Though all of it fits into what the gateway holds for a client."""
    script = [*LONG[:100], IM_END]
    async with slow(talkative, "s", script, **asked):
        await until(lambda: talkative.turns("s"))
        (turn,) = await talkative.turns("s")
        assert not turn["delivered"]
        await until(lambda: noted(talkative), within_s=4)


def said_to(client: SlowClient) -> str:
    """The text of the whole stream that a client has read."""
    said = b"".join(chunked(bytes(client.read).partition(b"\r\n\r\n")[2]))
    *events, done = SSEDecoder().feed(said)
    assert done == b"[DONE]"
    return "".join(orjson.loads(event)["choices"][0]["delta"].get("content", "") for event in events)


async def noted(house: House) -> bool:
    """Whether it is known of the session's turn that it was lost."""
    return [turn["delivered"] for turn in await house.turns("s")] == [False]


async def waits(house: House) -> bool:
    """Whether something waits for a client."""
    return await waiting_bytes(house) > 1000


async def nobody_reads(house: House) -> bool:
    """Whether no stream is open."""
    return await house.metric("gateway_streams") == 0


def chunked(body: bytes) -> Iterator[bytes]:
    """The data of the chunks of an HTTP body."""
    while body:
        size, _, body = body.partition(b"\r\n")
        yield body[: int(size, 16)]
        body = body[int(size, 16) + 2 :]


async def test_a_client_that_reads_slowly_is_no_stall_of_its_engine(
    open_house: OpenHouse, renderers: Renderers
) -> None:
    """The engine waits for the client meanwhile, and not the other way round."""
    talkative = Talkative(renderers.get({}).renderer)
    settings: Json = {"engine_stall_s": 0.4, "health_interval_s": 0.1, "stream_stall_s": 30.0, "resume_attempts": 5}
    house = await open_house(renderer=talkative, narrow=True, **settings)
    async with slow(house, "s", LONG) as client:
        await until(lambda: house.journal and house.journal[0].emitted)
        emitted, _ = await resting(house)
        assert emitted < len(LONG)
        await asyncio.sleep(1.2)
        async with asyncio.timeout(30):  # an error event would be no end that it waits for
            while b"[DONE]" not in client.read[-100:] and await client.take(1 << 20):
                pass

    (turn,) = await house.turns("s")
    assert (turn["status"], turn["completion_tokens"], turn["cuts"], len(house.journal)) == (
        "complete",
        len(LONG),
        [],
        1,
    )
    assert await house.metric("gateway_cuts_total") == 0


@pytest.mark.parametrize(("how", "control"), [("drain", False), ("cut", False), ("cut", True), ("removed", True)])
async def test_a_pause_does_not_wait_for_a_client_that_reads_nothing(
    open_house: OpenHouse, renderers: Renderers, how: str, *, control: bool
) -> None:
    """Nor does the removal of an engine. What the client has not taken it gets later, once and in order."""
    settings: Json = {"engine_control": control, "narrow": True, "stream_stall_s": 30.0, "resume_attempts": 5}
    tokens, renderer = 6000, Talkative(renderers.get({}).renderer)
    house = await open_house(renderer=renderer, **settings)
    async with slow(house, "s", None, max_tokens=tokens, ignore_eos=True) as client:
        await until(lambda: house.journal and house.journal[0].emitted)
        emitted, _ = await resting(house)
        assert emitted < tokens
        began_s = time.monotonic()
        if how in ("drain", "cut"):
            told = (await house.send("POST", "/admin/pause", mode=how)).body
            assert told["in_flight"] == house.sim[JOURNAL].running == 0
            await house.send("POST", "/admin/resume")
        elif how == "removed":
            url = (await house.call("GET", "/admin/engines")).body["data"][0]["url"]
            await house.call("DELETE", f"/admin/engines?url={url}")
            await house.send("POST", "/admin/engines", url=url)
        assert time.monotonic() - began_s < (3.0 if how == "drain" else 1.0)
        while b"[DONE]" not in client.read[-100:] and await client.take(1 << 20):
            pass
    (turn,) = (await house.call("GET", "/sessions/s/turns?ids=true")).body["data"]
    assert [cut["reason"] for cut in turn["cuts"]] == {"drain": [], "cut": ["pause"], "removed": ["removed"]}[how]
    assert len(turn["completion_ids"]) == tokens
    assert said_to(client) == renderer.parse_response(turn["completion_ids"]).content
