"""Every fault breaks an answer in the one way it is named for."""

import aiohttp
import orjson
import pytest

from gateway.sim import FAULTS, logprob


def content(choice) -> list:
    """Of each logprob entry, the id it names and its value."""
    return [(entry["token_id"], entry["logprob"]) for entry in choice["logprobs"]["content"]]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("kind", "ids", "entries"),
    [
        ("missing_logprob", [5, 6, 7], [(5, logprob(3, 5)), (6, logprob(4, 6))]),
        ("null_logprob", [5, 6, 7], [(5, logprob(3, 5)), (6, None), (7, logprob(5, 7))]),
        ("sentinel_logprob", [5, 6, 7], [(5, logprob(3, 5)), (6, -9999.0), (7, logprob(5, 7))]),
        ("positive_logprob", [5, 6, 7], [(5, logprob(3, 5)), (6, 0.25), (7, logprob(5, 7))]),
        ("wrong_logprob_id", [5, 6, 7], [(5, logprob(3, 5)), (7, logprob(4, 6)), (7, logprob(5, 7))]),
        ("extra_token", [5, 6, 6, 7], [(5, logprob(3, 5)), (6, logprob(4, 6)), (7, logprob(5, 7))]),
    ],
)
async def test_a_fault_can_spoil_one_logprob(start, kind, ids, entries, stream):
    """Only the entry at token `after` is touched, and the answer still ends properly."""
    sim = await start()
    await sim.inject(kind, after=1)
    body = sim.ask([5, 6, 7], stream=stream)
    choices = await sim.choices(body)
    assert [token_id for choice in choices for token_id in choice["token_ids"]] == ids
    assert [pair for choice in choices for pair in content(choice)] == entries
    assert choices[-1]["finish_reason"] == "stop"
    assert [entry["fault"] for entry in await sim.get("/sim/journal")] == [kind]


async def test_a_fault_can_take_all_logprobs(start):
    """They are null although they were asked for."""
    sim = await start()
    await sim.inject("no_logprobs")
    assert [event["choices"][0]["logprobs"] for event in await sim.chunks(sim.ask([5, 6], stream=True))] == [None, None]


@pytest.mark.parametrize(
    ("kind", "status"), [("error_500", 500), ("error_503", 503), ("scale_out_disabled", 403), ("not_found", 404)]
)
async def test_a_fault_can_refuse_a_stream_with_a_status(start, kind, status):
    """The body is vLLM's, `not_found` excepted: there the route itself is missing."""
    sim = await start()
    await sim.inject(kind)
    response = await sim.post(sim.ask([5], stream=True))
    body = await response.json()
    assert response.status == status
    assert body == {"detail": "Not Found"} if kind == "not_found" else body["error"]["code"] == status


async def test_a_gated_route_answers_as_0_32_does(start):
    """The whole body is what a server without --enable-scale-out sends."""
    sim = await start()
    await sim.inject("scale_out_disabled")
    assert await (await sim.post(sim.ask([5]))).json() == {
        "error": {
            "message": "Scale-out endpoints are disabled. Restart vllm serve with --enable-scale-out to enable them.",
            "type": "PermissionDeniedError",
            "param": None,
            "code": 403,
        }
    }


async def test_an_empty_script_ends_at_once(start):
    """One event without ids says "stop"; a fault that needs a token finds none and does nothing."""
    sim = await start()
    await sim.inject("null_logprob")
    [choice] = await sim.choices(sim.ask([], stream=True))
    assert (choice["token_ids"], choice["finish_reason"], choice["logprobs"]) == ([], "stop", None)


async def test_a_fault_strikes_as_often_as_asked_and_can_be_taken_back(start):
    """Faults queue up, each for one request; what is left can be cleared."""
    sim = await start()
    await sim.inject("error_500", times=2)
    sim.http.app[FAULTS].inject("error_503", times=2)
    statuses = [(await sim.post(sim.ask([5]))).status for _ in range(3)]
    await sim.http.delete("/sim/faults")
    assert [*statuses, (await sim.post(sim.ask([5]))).status] == [500, 500, 503, 200]
    assert await sim.inject("typo") == 400


async def test_a_cut_stream_breaks_after_the_tokens_asked_for(start):
    """The client has the first tokens and then a broken connection; it did not leave itself."""
    sim = await start()
    await sim.inject("cut", after=2)
    response = await sim.post(sim.ask([5, 6, 7], stream=True))
    seen = b""
    with pytest.raises(aiohttp.ClientPayloadError):
        async for part in response.content.iter_any():
            seen += part
    assert seen.count(b"data: ") == 2
    [entry] = await sim.get("/sim/journal")
    assert (entry["emitted"], entry["finished"], entry["disconnected"]) == ([5, 6], False, False)


async def test_a_cut_can_come_before_any_answer(start):
    """Not streaming, a cut leaves no response at all."""
    sim = await start()
    await sim.inject("cut")
    with pytest.raises(aiohttp.ServerDisconnectedError):
        await sim.post(sim.ask([5]))


async def test_a_stream_can_end_early_in_an_error_event(start):
    """As when the engine core dies: the status was 200, the error comes after the tokens, then [DONE]."""
    sim = await start()
    await sim.inject("error_event", after=1)
    token, error = await sim.chunks(sim.ask([5, 6], stream=True))
    assert token["choices"][0]["token_ids"] == [5]
    assert error["error"]["code"] == 500


async def test_a_whole_answer_can_be_lost_with_the_engine(start):
    """Not streamed, an engine that dies leaves a 500."""
    sim = await start()
    await sim.inject("error_event", after=1)
    response = await sim.post(sim.ask([5, 6]))
    assert (response.status, (await response.json())["error"]["type"]) == (500, "InternalServerError")


async def test_garbage_can_be_all_there_is(start):
    """As the whole answer; or, when the stream is shorter than that, as its last event."""
    sim = await start()
    await sim.inject("garbage", after=9, times=2)
    with pytest.raises(orjson.JSONDecodeError):
        orjson.loads(await (await sim.post(sim.ask([5]))).read())
    *_, garbage, _done = await sim.payloads(sim.ask([5], stream=True))
    with pytest.raises(orjson.JSONDecodeError):
        orjson.loads(garbage)


@pytest.mark.parametrize("after", [0, 2])
async def test_a_stream_can_end_without_a_finish_reason(start, after):
    """[DONE] comes after the tokens, and nothing says why; the journal does not call that finished."""
    sim = await start()
    await sim.inject("no_finish", after=after)
    events = await sim.chunks(sim.ask([5, 6, 7], stream=True))
    assert [event["choices"][0]["finish_reason"] for event in events] == [None] * after
    assert [entry["finished"] for entry in await sim.get("/sim/journal")] == [False]


@pytest.mark.parametrize(("after", "ids"), [(0, [[]]), (2, [[5], [6]])])
async def test_an_answer_can_be_aborted(start, after, ids):
    """The tokens so far come with finish reason "abort"; with none, one event has no ids and the reason."""
    sim = await start()
    await sim.inject("abort", after=after, times=2)
    choices = [event["choices"][0] for event in await sim.chunks(sim.ask([5, 6, 7], stream=True))]
    assert [choice["token_ids"] for choice in choices] == ids
    assert choices[-1]["finish_reason"] == "abort"
    answer = await sim.whole(sim.ask([5, 6, 7]))
    assert (answer["token_ids"], answer["finish_reason"]) == ([5, 6, 7][:after], "abort")


async def test_an_event_can_be_garbage(start):
    """It is not JSON, it comes after the events asked for, and the rest follows as if nothing had been."""
    sim = await start()
    await sim.inject("garbage", after=1)
    first, garbage, last, done = await sim.payloads(sim.ask([5, 6], stream=True))
    with pytest.raises(orjson.JSONDecodeError):
        orjson.loads(garbage)
    assert orjson.loads(first)["choices"][0]["token_ids"] == [5]
    assert orjson.loads(last)["choices"][0]["finish_reason"] == "stop"
    assert done == b"[DONE]"
