"""A streamed answer is the same answer, sent while it is made."""

from tests.edge.house import HELLO, TOOLS, House, Json, Words
from tests.edge.streams import stream


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
