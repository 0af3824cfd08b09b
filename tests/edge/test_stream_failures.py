"""What goes wrong while an answer is streamed: a status as long as there is none, then an event, and never an end."""

from asyncio import timeout

import pytest

from tests.edge.house import HELLO, House, OpenHouse, Words, until, user
from tests.edge.keeping import KeepingStore
from tests.edge.marks import retry
from tests.edge.streams import Streamed, reading, stream

EVIDENCE = {
    "garbage": (502, "engine_protocol_error"),
    "null_logprob": (502, "engine_protocol_error"),
    "no_logprobs": (502, "engine_protocol_error"),
}
REFUSED = {"error_500": (503, "engine_unavailable"), "error_503": (503, "engine_unavailable")}
BROKEN_OFF = {
    "cut": (503, "engine_unavailable"),
    "error_event": (503, "engine_unavailable"),
    "no_finish": (503, "engine_unavailable"),
    "abort": (503, "engine_unavailable"),
}
"""What the engine does, and what an answer of its own says of it."""
LATER = {kind: says for kind, says in (EVIDENCE | BROKEN_OFF).items() if kind != "no_logprobs"}
"""What it can do when it has begun."""


@pytest.fixture
async def slow_engine(open_house: OpenHouse) -> House:
    """A gateway whose engine takes its time, so that a failure comes when the answer has begun."""
    return await open_house(sim={"token_delay_s": 0.01})


def is_broken_off(streamed: Streamed, code: str) -> None:
    """It began well and ended in an error event."""
    assert streamed.status == 200
    assert streamed.error is not None
    assert streamed.error.keys() == {"message", "type", "param", "code"}
    assert (streamed.error["code"], streamed.error["type"]) == (code, "server_error")
    assert not streamed.done
    assert streamed.choice()["finish_reason"] is None
    assert not any(chunk.get("usage") for chunk in streamed.chunks)


@pytest.mark.parametrize(("kind", "expected"), [*(EVIDENCE | REFUSED | BROKEN_OFF).items()])
async def test_before_the_engine_has_said_anything_a_failure_has_its_status(
    house: House, words: Words, kind: str, expected: tuple[int, str]
) -> None:
    """And its headers: SDKs then retry as they are used to."""
    house.faults.inject(kind, after=0)
    streamed = await stream(house, "s", HELLO, words.said("Hello, you."))

    assert streamed.error is not None
    assert (streamed.status, streamed.error["code"]) == expected
    assert ("Retry-After" in streamed.headers) == (expected[0] == 503)
    assert streamed.headers["content-type"].startswith("application/json")
    assert await house.turns("s") == []
    assert (await stream(house, "s", HELLO, words.said("Hello, you."))).done


@pytest.mark.parametrize(("kind", "expected"), [*LATER.items()])
async def test_after_that_a_failure_is_an_event_and_the_turn_is_not_complete(
    slow_engine: House, words: Words, kind: str, expected: tuple[int, str]
) -> None:
    """What was said stays said; what was sampled is one aborted turn, unless the engine is not to be believed."""
    house = slow_engine
    first = await house.ask("s", HELLO, words.said("Hi."))
    house.faults.inject(kind, after=2 if kind in EVIDENCE else 9)
    messages = [*HELLO, first.message, user("And?")]
    streamed = await stream(
        house, "s", messages, words.said("Hello, you there."), stream_options={"include_usage": True}
    )

    is_broken_off(streamed, expected[1])
    assert "Hello, you there.".startswith(streamed.message["content"])
    if kind in BROKEN_OFF:
        assert streamed.message["content"] == "Hello, yo"
    turns = await house.turns("s")
    kept = [("aborted", 9)] if kind in BROKEN_OFF else []
    assert [(turn["status"], turn["completion_tokens"]) for turn in turns[1:]] == kept
    assert await house.metric("gateway_errors_total", code=expected[1]) == 1
    assert len(await house.rows("s")) == 1
    await house.idle()

    again = await stream(house, "s", messages, words.said("Hello, you there."))
    assert again.done
    assert (await house.turns("s"))[-1]["parent_id"] == first.headers["x-turn-id"]


async def test_a_call_with_evidence_that_fails_has_said_what_it_proved(slow_engine: House, words: Words) -> None:
    """The logprobs of what was said before the failure are there, though nothing is kept of the call."""
    slow_engine.faults.inject("null_logprob", after=9)
    streamed = await stream(slow_engine, "s", HELLO, words.said("Hello, you there."), logprobs=True)

    is_broken_off(streamed, "engine_protocol_error")
    said = streamed.choice()["logprobs"]["content"]
    assert "".join(entry["token"] for entry in said) == streamed.message["content"] == "Hello, yo"
    assert await slow_engine.turns("s") == []


async def test_an_engine_that_falls_silent_is_left_when_the_client_hangs_up(house: House, words: Words) -> None:
    """What was sampled and said is one aborted turn."""
    house.faults.inject("stall", after=9)
    async with reading(house, "s", HELLO, words.said("Hello, you there.")) as (streamed, chunks):
        async for _ in chunks:
            if streamed.message["content"] == "Hello, yo":
                break
    await until(lambda: house.journal[0].disconnected)
    await house.idle()

    (turn,) = await house.turns("s")
    assert (turn["status"], turn["completion_tokens"], turn["delivered"]) == ("aborted", 9, None)


async def test_an_answer_that_cannot_be_kept_does_not_end_well(open_house: OpenHouse, words: Words) -> None:
    """Though all of it was said: there is no turn, and so no finish, no count of tokens and no end."""
    store = KeepingStore()
    house = await open_house(store=store)
    store.hold()
    async with reading(house, "s", HELLO, words.said("Hi."), stream_options={"include_usage": True}) as (
        streamed,
        chunks,
    ):
        async for _ in chunks:
            if streamed.message["content"] == "Hi.":
                break
        await until(lambda: store.waiting)
        store.failure = OSError("disk full")
        store.release()
        async for _ in chunks:
            pass

    is_broken_off(streamed, "internal_error")
    assert streamed.error is not None
    assert "disk" not in streamed.error["message"]
    assert await house.turns("s") == []


async def test_an_answer_that_cannot_be_written_has_not_arrived(
    house: House, words: Words, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The turn is complete, and a retry gets it: that is no fault of the model's, nor of the engine's."""
    with monkeypatch.context() as broken:
        broken.setattr("gateway.wire.chat_stream.usage", lambda _turns: 1 / 0)
        streamed = await stream(house, "s", HELLO, words.said("Hi."), stream_options={"include_usage": True})
    assert streamed.error is not None
    assert (streamed.error["code"], streamed.done) == ("internal_error", False)

    async def is_lost() -> bool:
        (turn,) = await house.turns("s")
        return (turn["status"], turn["delivered"]) == ("complete", False)

    await until(is_lost)
    again = await stream(house, "s", HELLO, words.said("Hi."), stream_options={"include_usage": True}, headers=retry())
    assert (again.done, again.headers["x-turn-id"]) == (True, streamed.headers["x-turn-id"])


async def test_a_gateway_that_stops_says_so_in_its_streams(house: House, words: Words) -> None:
    """Nobody takes what was said so far for an answer."""
    house.faults.inject("stall", after=9)
    async with reading(house, "s", HELLO, words.said("Hello, you there.")) as (streamed, chunks):
        async for _ in chunks:
            if streamed.message["content"] == "Hello, yo":
                break
        await house.http.app.shutdown()
        async for _ in chunks:
            pass

    is_broken_off(streamed, "gateway_draining")
    assert streamed.error is not None
    assert "stopping" in streamed.error["message"]
    assert [turn["status"] for turn in await house.turns("s")] == ["aborted"]


async def test_while_the_engine_is_silent_comments_keep_the_stream_alive(open_house: OpenHouse, words: Words) -> None:
    """Before its first word the head leaves after one interval; what follows is the same answer."""
    house = await open_house(keep_alive_s=0.04, sim={"first_token_delay_s": 0.15})
    streamed = await stream(house, "s", HELLO, words.said("Hi."), return_token_ids=True)

    assert (streamed.status, streamed.done) == (200, True)
    assert 2 <= streamed.comments <= 5
    assert streamed.message["content"] == "Hi."
    assert streamed.chunks[0]["prompt_token_ids"] == house.prompts[0]


async def test_in_the_middle_of_an_answer_too_comments_keep_the_stream_alive(
    open_house: OpenHouse, words: Words
) -> None:
    """None of them before the engine has begun."""
    house = await open_house(keep_alive_s=0.04)
    house.faults.inject("stall", after=9)
    async with reading(house, "s", HELLO, words.said("Hello, you there.")) as (streamed, chunks):
        async for _ in chunks:
            assert streamed.comments == 0
            if streamed.message["content"] == "Hello, yo":
                break
        with pytest.raises(TimeoutError):
            async with timeout(0.15):
                await anext(chunks)
    assert 2 <= streamed.comments <= 4


async def test_when_the_head_has_left_early_a_failure_is_an_event(open_house: OpenHouse, words: Words) -> None:
    """The engine's first word was waited for no longer than one interval."""
    house = await open_house(keep_alive_s=0.04, sim={"first_token_delay_s": 0.1})
    house.faults.inject("abort", after=0)
    streamed = await stream(house, "s", HELLO, words.said("Hi."))

    is_broken_off(streamed, "engine_unavailable")
    assert streamed.comments
    assert await house.turns("s") == []


async def test_the_head_says_what_the_answer_is(house: House, words: Words) -> None:
    """Nothing on the way is to gather or to keep it."""
    streamed = await stream(house, None, HELLO, words.said("Hi."), n=2, headers={"X-Request-Id": "mine"})

    head = streamed.headers
    assert head["content-type"] == "text/event-stream; charset=utf-8"
    assert (head["cache-control"], head["x-accel-buffering"]) == ("no-cache", "no")
    assert head["x-request-id"] == "mine"
    turns = await house.turns(head["x-session-id"])
    assert head["x-turn-id"].split(",") == [turn["turn_id"] for turn in turns]
    assert {chunk["id"] for chunk in streamed.chunks} == {f"chatcmpl-{turns[0]['turn_id']}"}
