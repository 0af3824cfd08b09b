"""A client that leaves its stream, at any moment: the engine stops, or the turn is recorded and known to be lost."""

import asyncio
import gc
import weakref
from collections.abc import Callable, Sequence

import orjson
import pytest

from gateway.edge.feed import Feed
from tests.edge.house import HELLO, House, OpenHouse, Words, until
from tests.edge.keeping import KeepingStore
from tests.edge.marks import keyed
from tests.edge.streams import Streamed, reading

TEXT = "Hello, you there."
MOMENTS = {"after the role": ({1, 9}, ""), "in the middle": ({9}, TEXT[:9]), "after the last word": ({17}, TEXT)}
"""What was said when the client leaves, and what was sampled by then: the engine sends one id, and then eight."""


async def left(house: House, words: Words, enough: Callable[[Streamed], bool], n: int = 1) -> Streamed:
    """A stream that its client leaves as soon as it has enough of it."""
    async with reading(house, "s", HELLO, words.said(TEXT), n=n) as (streamed, chunks):
        async for _ in chunks:
            if enough(streamed):
                break
    return streamed


async def has_turns(house: House, *statuses: str) -> bool:
    """Whether these are the session's turns."""
    return [turn["status"] for turn in await house.turns("s")] == [*statuses]


@pytest.mark.parametrize("n", [1, 2])
@pytest.mark.parametrize("moment", MOMENTS)
async def test_while_it_is_sampled_the_engine_stops(house: House, words: Words, moment: str, n: int) -> None:
    """What was sampled is one aborted turn for each choice."""
    counts, said = MOMENTS[moment]
    house.faults.inject("stall", after=max(counts), times=n)
    streamed = await left(
        house,
        words,
        lambda streamed: all(streamed.choice(index)["message"]["content"] >= said for index in range(n)),
        n,
    )

    await until(lambda: all(entry.disconnected for entry in house.journal))
    await house.idle()
    await until(lambda: has_turns(house, *["aborted"] * n))
    assert {turn["completion_tokens"] for turn in await house.turns("s")} <= counts
    assert not streamed.done
    assert await house.rows("s") == []
    assert await house.metric("gateway_streams") == 0


async def test_before_the_head_nothing_is_left(open_house: OpenHouse, words: Words) -> None:
    """The engine had said nothing; there is no session."""
    house = await open_house(sim={"first_token_delay_s": 5})
    call = asyncio.ensure_future(left(house, words, bool))
    await until(lambda: house.journal)
    call.cancel()
    await asyncio.gather(call, return_exceptions=True)
    await until(lambda: house.journal[0].disconnected)
    await house.idle()

    assert await house.turns("s") == []
    assert await house.metric("gateway_streams") == 0


@pytest.mark.parametrize("n", [1, 2])
async def test_while_it_is_recorded_it_becomes_a_turn_that_did_not_arrive(
    open_house: OpenHouse, words: Words, n: int
) -> None:
    """All was said, and is kept; only the end could not be told."""
    store = KeepingStore()
    house = await open_house(store=store)
    store.hold()
    async with reading(house, "s", HELLO, words.said(TEXT), n=n) as (streamed, chunks):
        async for _ in chunks:
            if all(streamed.choice(index)["message"]["content"] == TEXT for index in range(n)):
                break
        await until(lambda: store.waiting)

    async def nobody_reads() -> bool:
        return await house.metric("gateway_streams") == 0

    await until(nobody_reads)
    assert await house.turns("s") == []
    store.release()
    await until(lambda: has_turns(house, *["complete"] * n))
    assert {turn["delivered"] for turn in await house.turns("s")} == {False}
    await house.idle()


async def test_one_of_two_readers_may_leave(open_house: OpenHouse, words: Words) -> None:
    """The other one reads on to the end, and the turn has arrived."""
    house = await open_house(sim={"token_delay_s": 0.004})
    async with reading(house, "s", HELLO, words.said(TEXT), headers=keyed("k")) as (stays, chunks):
        await anext(chunks)
        async with reading(house, "s", HELLO, words.said(TEXT), headers=keyed("k")) as (leaves, others):
            await anext(others)
        async for _ in chunks:
            pass

    assert (stays.done, stays.message["content"]) == (True, TEXT)
    assert not leaves.done
    (turn,) = await house.turns("s")
    assert (turn["status"], turn["delivered"]) == ("complete", True)


async def test_a_client_that_closes_its_sending_half_counts_as_gone(house: House, words: Words) -> None:
    """It gets nothing more, though it would read on."""
    house.faults.inject("stall", after=9)
    body = orjson.dumps({"messages": HELLO, "stream": True, "vllm_xargs": {"script": words.said(TEXT)}})
    url = house.http.make_url("/sessions/s/v1/chat/completions")
    reader, writer = await asyncio.open_connection(url.host, url.port)
    head = f"POST {url.path} HTTP/1.1\r\nHost: {url.authority}\r\nContent-Type: application/json\r\n"
    writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
    await reader.readuntil(b"ello")

    writer.write_eof()

    rest = await reader.read()
    assert b"[DONE]" not in rest
    assert b"error" not in rest
    await until(lambda: has_turns(house, "aborted"))
    await house.idle()
    writer.close()
    await writer.wait_closed()


@pytest.mark.parametrize("how", ["read", "left", "cut", "refused"])
async def test_what_a_call_said_is_not_kept_when_it_is_over(
    house: House, words: Words, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """However it ended, and though the garbage collector may not come by for long."""
    feeds: list[weakref.ref[Feed]] = []

    class Seen(Feed):
        def __init__(self, session_id: str, turn_ids: Sequence[str], room_bytes: int, version: str) -> None:
            super().__init__(session_id, turn_ids, room_bytes, version)
            feeds.append(weakref.ref(self))

    monkeypatch.setattr("gateway.edge.calls.Feed", Seen)
    if how in ("cut", "refused"):
        house.faults.inject("cut", after=9 if how == "cut" else 0)
    gc.disable()
    try:
        await left(house, words, lambda streamed: how == "left" and bool(streamed.message["content"]))
        await house.idle()
        await until(lambda: feeds[0]() is None)
    finally:
        gc.enable()
