"""Streams that are asked for again: joined while they run, said once more when they are recorded."""

import asyncio

import pytest

from tests.edge.house import HELLO, TOOLS, House, Json, OpenHouse, Words, until
from tests.edge.keeping import KeepingStore
from tests.edge.marks import keyed, retry
from tests.edge.streams import Streamed, reading, stream

ASKED = {"tools": TOOLS, "logprobs": True, "top_logprobs": 1, "return_token_ids": True}


def same(one: Streamed, other: Streamed, *, n: int = 1) -> None:
    """Both had one answer, with its ids and its evidence, to its end."""
    assert one.done
    assert other.done
    assert one.headers["x-turn-id"] == other.headers["x-turn-id"]
    assert one.headers["x-session-id"] == other.headers["x-session-id"]
    assert other.headers.get("x-gateway-replayed") == "true"
    for index in range(n):
        assert one.choice(index) == other.choice(index)
    assert one.chunks[0].get("prompt_token_ids") == other.chunks[0].get("prompt_token_ids")
    assert {chunk["id"] for chunk in one.chunks} == {chunk["id"] for chunk in other.chunks}


@pytest.mark.parametrize("n", [1, 2])
async def test_a_retry_joins_a_running_stream_and_reads_it_from_its_beginning(
    open_house: OpenHouse, words: Words, n: int
) -> None:
    """Its first words too, while the first client reads on; it is sampled once."""
    house = await open_house(sim={"token_delay_s": 0.004})
    script = words.called("A thought that takes a while.", "weather", {"city": "Rome"})
    async with reading(house, "s", HELLO, script, n=n, **ASKED) as (first, chunks):
        async for _ in chunks:
            if len(first.message.get("reasoning", "")) > 5:
                break
        joining = asyncio.ensure_future(stream(house, "s", HELLO, script, n=n, **ASKED, headers=retry()))
        async for _ in chunks:
            pass
        same(first, await joining, n=n)

    assert len(house.journal) == n
    assert [turn["status"] for turn in await house.turns("s")] == ["complete"] * n


async def test_a_retry_that_joins_before_the_next_word_has_its_head_at_once(house: House, words: Words) -> None:
    """The engine has begun, and the retry need not wait for more."""
    house.faults.inject("stall", after=9)
    script = words.said("Hello, you there.")
    async with reading(house, "s", HELLO, script) as (_, chunks):
        assert (await anext(chunks))["choices"][0]["delta"]["role"] == "assistant"
        async with asyncio.timeout(2), reading(house, "s", HELLO, script, headers=retry()) as (joined, others):
            async for _ in others:
                if joined.message["content"] == "Hello, yo":
                    break


async def test_with_a_grace_a_retry_joins_what_its_client_has_left(open_house: OpenHouse, words: Words) -> None:
    """A stream broke off on the way; the retry reads the same answer from its beginning."""
    house = await open_house(disconnect_grace_s=10, sim={"token_delay_s": 0.004})
    script = words.said("A long answer, which is still going on.")
    async with reading(house, "s", HELLO, script) as (left, chunks):
        async for _ in chunks:
            if left.message["content"]:
                break
    joined = await stream(house, "s", HELLO, script, headers=retry())

    assert joined.headers["x-turn-id"] == left.headers["x-turn-id"]
    assert joined.message["content"] == "A long answer, which is still going on."
    (turn,) = await house.turns("s")
    assert (turn["status"], turn["delivered"]) == ("complete", True)
    assert len(house.journal) == 1


@pytest.mark.parametrize("n", [1, 2])
@pytest.mark.parametrize("mark", [retry(), keyed("k")], ids=["count", "key"])
async def test_a_recorded_stream_is_said_once_more(house: House, words: Words, mark: dict[str, str], n: int) -> None:
    """The same message, ids of calls and evidence, though in other pieces."""
    script = words.called("What is the weather?", "weather", {"city": "Zürich 🌧"})
    asked = {**ASKED, "n": n, "stream_options": {"include_usage": True}}
    before = {} if "x-stainless-retry-count" in mark else mark
    first = await stream(house, "s", HELLO, script, **asked, headers=before)
    again = await stream(house, "s", HELLO, script, **asked, headers=mark)

    same(first, again, n=n)
    assert first.chunks[-1]["usage"] == again.chunks[-1]["usage"]
    assert len(house.journal) == n
    assert await house.metric("gateway_retries_total", outcome="replayed") == 1


async def test_an_answer_whose_delivery_failed_in_the_middle_is_said_first(open_house: OpenHouse, words: Words) -> None:
    """Of two equal calls the one that arrived is not the one that is tried again."""
    store = KeepingStore()
    house = await open_house(store=store)
    script = words.said("Hi.")
    arrived = await stream(house, "s", HELLO, script)
    store.hold()
    async with reading(house, "s", HELLO, script) as (lost, chunks):
        async for _ in chunks:
            if lost.message["content"] == "Hi.":
                break
        await until(lambda: store.waiting)
    await until(lambda: nobody_reads(house))
    store.release()
    await until(lambda: len(store.turns) == 2)
    delivered = {turn["turn_id"]: turn["delivered"] for turn in await house.turns("s")}
    assert delivered == {arrived.headers["x-turn-id"]: True, lost.headers["x-turn-id"]: False}

    again = await stream(house, "s", HELLO, script, headers=retry())

    assert again.headers["x-turn-id"] == lost.headers["x-turn-id"]
    assert again.message == arrived.message
    assert all(turn["delivered"] for turn in await house.turns("s"))
    assert len(house.journal) == 2


async def test_a_retry_of_a_stream_that_failed_is_sampled_anew(house: House, words: Words) -> None:
    """An error is no answer to repeat."""
    house.faults.inject("cut", after=9)
    failed = await stream(house, "s", HELLO, words.said("Hello, you there."))
    again = await stream(house, "s", HELLO, words.said("Hello, you there."), headers=retry())

    assert failed.error is not None
    assert (again.done, again.message["content"]) == (True, "Hello, you there.")
    assert len(house.journal) == 2


async def test_the_choices_of_a_stream_join_each_to_its_own_message(open_house: OpenHouse, words: Words) -> None:
    """They come as they are sampled, and are recorded together."""
    house = await open_house(sim={"token_delay_s": 0.002})
    script = words.called("Which?", "weather", {"city": "Oslo"})
    streamed = await stream(house, "s", HELLO, script, n=3, **ASKED)

    messages = [streamed.choice(index)["message"] for index in range(3)]
    assert len({message["tool_calls"][0].pop("id") for message in messages}) == 3
    assert messages[0] == messages[1] == messages[2]
    assert messages[0]["reasoning"] == "Which?"
    assert [streamed.choice(index)["token_ids"] for index in range(3)] == [script] * 3
    spoke = [choice["index"] for chunk in streamed.chunks for choice in chunk["choices"] if choice["delta"]]
    assert spoke != sorted(spoke)
    assert [turn["turn_id"] for turn in await house.turns("s")] == streamed.headers["x-turn-id"].split(",")


async def test_a_stream_that_stops_at_a_string_says_no_more_ids_than_are_kept(house: House, words: Words) -> None:
    """What the engine samples beyond the stop is neither said nor proved, streamed or not."""
    script = [*words.ids("One two STOP three four"), *words.said(" five")]
    asked: Json = {"stop": ["ST", "P thr"], "logprobs": True, "return_token_ids": True}
    whole = await house.ask("whole", HELLO, script, **asked)
    streamed = await stream(house, "streamed", HELLO, script, **asked)

    assert streamed.done
    assert streamed.choice() == whole.body["choices"][0]
    (one,), (other,) = [await house.turns(session) for session in ("whole", "streamed")]
    assert one["completion_tokens"] == other["completion_tokens"] == len(streamed.choice()["token_ids"])


async def nobody_reads(house: House) -> bool:
    """Whether no stream is open."""
    return await house.metric("gateway_streams") == 0
