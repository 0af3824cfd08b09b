"""A client that leaves its stream, at any moment: the engine stops, or the turn is recorded and known to be lost."""

import asyncio
from collections.abc import Callable

import pytest

from tests.edge.house import HELLO, House, OpenHouse, Words, until
from tests.edge.keeping import KeepingStore
from tests.edge.marks import keyed
from tests.edge.streams import Streamed, reading

TEXT = "Hello, you there."
MOMENTS: dict[str, tuple[int, Callable[[Streamed], bool]]] = {
    "after the role": (9, lambda streamed: bool(streamed.chunks)),
    "in the middle": (9, lambda streamed: streamed.message["content"] == TEXT[:9]),
    "after the last word": (len(TEXT), lambda streamed: streamed.message["content"] == TEXT),
}


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
    after, enough = MOMENTS[moment]
    house.faults.inject("stall", after=after, times=n)
    streamed = await left(house, words, enough, n)

    await until(lambda: all(entry.disconnected for entry in house.journal))
    await house.idle()
    await until(lambda: has_turns(house, *["aborted"] * n))
    assert {turn["completion_tokens"] for turn in await house.turns("s")} <= {after, 1}
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
