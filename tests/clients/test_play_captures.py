"""Small captures of clients that do not exist, played through a gateway."""

from dataclasses import replace

import pytest

from tests.clients.play_captures import play
from tests.clients.replay import Json

TOOLS = [{"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}]
ASKED = [{"role": "system", "content": "Look."}, {"role": "user", "content": "Where?"}]
CALL = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": '{ "at" : "M\\u00fcnchen" }'}}
COMPACT = {"name": "look", "arguments": '{"at":"München"}'}
CALLED = {"role": "assistant", "content": "\n Hm.\n", "reasoning_content": "Look.", "tool_calls": [CALL]}
SEEN = {"role": "tool", "tool_call_id": "c1", "content": "ö"}
SAID = {"role": "assistant", "content": "There. "}
THANKS = {"role": "user", "content": "Thanks"}


def exchange(messages: list[Json], sent: Json, **more: object) -> Json:
    """One captured request, and what the server said."""
    body = {"model": "m", "messages": messages, "tools": TOOLS, **more}
    return {"path": "/v1/chat/completions", "body": body, "server_sent": {"choices": [{"message": sent}]}}


def conversation(replayed: Json, **more: object) -> list[Json]:
    """Three requests of a client that sends the first answer back as `replayed`."""
    second = [*ASKED, replayed, SEEN]
    return [
        exchange(ASKED, CALLED, **more),
        exchange(second, SAID, **more),
        exchange([*second, SAID, THANKS], SAID, **more),
    ]


ALTERED = {"role": "assistant", "content": None, "tool_calls": [CALL | {"function": COMPACT}]}


async def test_each_turn_of_a_client_that_alters_spelling_is_bridged() -> None:
    (report,) = await play({"one": conversation(ALTERED)})
    assert (report.requests, report.streamed, report.continuing, report.bridged) == (3, 0, 2, 2)
    assert report.differences == {"content_dropped": 2, "reasoning_dropped": 2, "arguments_reserialised": 2}
    assert not report.forked


async def test_what_was_streamed_is_streamed() -> None:
    """And is the same to the client, who alters it as it altered what was captured."""
    whole, streamed = conversation(ALTERED), conversation(ALTERED, stream=True, stream_options={"include_usage": True})
    first, second = await play({"one": whole, "other": streamed})
    assert second == replace(first, name="other", streamed=3)


async def test_a_client_that_writes_an_answer_anew_is_told_apart() -> None:
    """The turn after that extends the fork, in which the client's words are context."""
    (report,) = await play({"one": conversation({"role": "assistant", "content": "Hm. Calling look."})})
    assert report.forked == {"history_edited; content written anew": 1}
    assert report.bridged == 1


@pytest.mark.parametrize("stream", [False, True])
async def test_what_the_gateway_refuses_is_told(stream: bool) -> None:
    """And the rest of the capture is played all the same."""
    refused = exchange([*ASKED, SAID, THANKS], SAID, temperature="hot", stream=stream)
    (report,) = await play({"one": [exchange(ASKED, SAID), refused, exchange([*ASKED, SAID, THANKS], SAID)]})
    (reason,) = report.forked
    assert reason.startswith("refused with 400: temperature")
    assert (report.continuing, report.bridged) == (2, 1)


async def test_requests_of_other_dialects_are_left_out() -> None:
    (report,) = await play({"one": [{"path": "/v1/responses", "body": {}, "server_sent": {}}]})
    assert report.requests == 0
