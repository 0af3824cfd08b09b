"""A streamed answer is the same answer, sent while it is made."""

from contextlib import ExitStack

import pytest
from aiohttp.test_utils import make_mocked_request

from gateway.edge.feed import Feed
from gateway.edge.stream import Streams
from tests.edge.house import HELLO, TOOLS, House, Json, OpenHouse, Words
from tests.edge.streams import reading, stream

EACH_ID: Json = {"stream_interval_tokens": 1, "sim": {"token_delay_s": 0.005}}


async def test_a_streamed_answer_is_the_answer_that_is_not_streamed(house: House, words: Words) -> None:
    """Message, reason, usage, ids and logprobs: joined, the chunks say what the whole says, and the ledger too."""
    script = words.called("What is the weather?", "weather", {"city": "Zürich 🌧"})
    asked: Json = {"tools": TOOLS, "logprobs": True, "top_logprobs": 2, "return_token_ids": True}
    whole = await house.ask("whole", HELLO, script, **asked)
    streamed = await stream(house, "streamed", HELLO, script, **asked, stream_options={"include_usage": True})

    assert streamed.done
    assert streamed.error is None
    said, choice = whole.body["choices"][0], streamed.choice()
    for message in (said["message"], choice["message"]):
        for call in message["tool_calls"]:
            assert call.pop("id").startswith("call_")
    assert choice == said
    assert streamed.chunks[0]["prompt_token_ids"] == whole.body["prompt_token_ids"]
    assert streamed.chunks[-1]["choices"] == []
    assert streamed.chunks[-1]["usage"] == whole.body["usage"]
    (one,), (other,) = [await house.turns(session) for session in ("whole", "streamed")]
    for turn in (one, other):
        del turn["turn_id"]
    assert one == other


@pytest.mark.parametrize(("interval_ms", "least", "most"), [(0, 10, 17), (1000, 2, 2)])
async def test_what_is_said_within_an_interval_is_sent_together(
    open_house: OpenHouse, words: Words, interval_ms: int, least: int, most: int
) -> None:
    """But for the first words, which nothing delays; and the end is not waited for."""
    house, text = await open_house(flush_interval_ms=interval_ms, **EACH_ID), "Hello, you there."
    told = 0
    async with reading(house, "s", HELLO, words.said(text)) as (streamed, chunks):
        async for chunk in chunks:
            if chunk["choices"][0]["delta"].get("content"):
                told += 1
                if told == 1:
                    assert len(house.journal[0].emitted) < len(text)

    assert streamed.message["content"] == text
    assert least <= told <= most


def test_many_streams_are_sent_less_often() -> None:
    """One more than few: from then on each is gathered for 50 ms, unless an interval is set."""
    streams, request = Streams(1 << 18, 60.0, 15.0), make_mocked_request("POST", "/")
    with ExitStack() as stack:
        for _ in range(255):
            stack.enter_context(streams.opened(request, Feed("s", ("t",), 1)))
        assert streams.interval_s == 0
        with streams.opened(request, Feed("s", ("t",), 1)):
            assert streams.interval_s == 0.05
            streams.flush_interval_s = 0.0
            assert streams.interval_s == 0
