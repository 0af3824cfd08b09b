"""What the simulated engine promises on the wire: vLLM's shapes, scripted answers, vLLM's errors."""

import struct

import pytest

from gateway.sim import logprob

EOS = 151645

WHOLE_0_20 = {"request_id", "choices", "prompt_logprobs", "kv_transfer_params"}
CHOICE_0_20 = {"index", "logprobs", "finish_reason", "token_ids"}
CHUNK_0_20 = {"request_id", "choices", "usage"}
ENTRY_0_20 = {"token", "logprob", "bytes", "top_logprobs"}
WHOLE_0_32 = {
    *("request_id", "model", "created", "usage", "prompt_logprobs", "prompt_token_id_logprobs", "prompt_token_ids"),
    *("mm_placeholders", "metrics", "kv_transfer_params", "ec_transfer_params", "output_mode", "choices"),
}
CHOICE_0_32 = {
    *("index", "finish_reason", "stop_reason", "token_ids", "routed_experts", "sampling_mask", "weight_versions"),
    "logprobs",
}
CHUNK_0_32 = {"request_id", "usage", "output_mode", "choices"}
ENTRY_0_32 = {"token_id", "logprob", "rank", "top_logprobs"}
USAGE_0_32 = {
    *("prompt_tokens", "total_tokens", "completion_tokens", "prompt_tokens_details", "completion_tokens_details")
}

OLD_AND_NEW = pytest.mark.parametrize(
    ("version", "whole_keys", "choice_keys", "chunk_keys", "entry_keys"),
    [
        ("0.20.2", WHOLE_0_20, CHOICE_0_20, CHUNK_0_20, ENTRY_0_20),
        ("0.32.0", WHOLE_0_32, CHOICE_0_32, CHUNK_0_32, ENTRY_0_32),
    ],
)


@OLD_AND_NEW
async def test_answers_have_exactly_the_keys_of_their_release(
    start, version, whole_keys, choice_keys, chunk_keys, entry_keys
):
    """Streamed or not, every object has the keys that a real engine of that release sent."""
    sim = await start(version=version)
    answer = await (await sim.post(sim.ask([5]))).json()
    assert set(answer) == whole_keys
    [event] = await sim.chunks(sim.ask([5], stream=True))
    assert set(event) == chunk_keys
    for choice in (answer["choices"][0], event["choices"][0]):
        assert set(choice) == choice_keys
        [entry] = choice["logprobs"]["content"]
        assert set(entry) == entry_keys
        assert set(entry["top_logprobs"][0]) == entry_keys - {"top_logprobs"}


async def test_only_whole_answers_of_0_25_and_later_count_tokens(start):
    """`usage` came to non-stream answers with 0.25, next to `model`; before, the request id was random too."""
    new_sim, middle_sim, old_sim = [await start(version=version) for version in ("0.32.0", "0.28.0", "0.24.0")]
    body = {**new_sim.ask([5, 6]), "request_id": "mine"}
    new = await (await new_sim.post(body)).json()
    assert set(new["usage"]) == USAGE_0_32
    assert (new["usage"]["prompt_tokens"], new["usage"]["completion_tokens"], new["usage"]["total_tokens"]) == (3, 2, 5)
    assert new["request_id"] == "generate-tokens-mine"
    middle = await (await middle_sim.post(body)).json()
    assert middle["model"] == "sim"
    assert "token" in middle["choices"][0]["logprobs"]["content"][0]
    old = await (await old_sim.post(body)).json()
    assert not {"usage", "model", "created"} & set(old)
    assert "mine" not in old["request_id"]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("script", [[7, EOS, 8, EOS, 9], "[7, 151645, 8, 151645, 9]"])
async def test_a_script_is_emitted_whole_and_exactly(start, script, stream):
    """Stop ids inside a script do not end it, no eos is added, and the journal lists what was sent."""
    sim = await start()
    body = sim.ask(script, stream=stream, stop_token_ids=[8])
    choices = await sim.choices(body)
    assert [token_id for choice in choices for token_id in choice["token_ids"]] == [7, EOS, 8, EOS, 9]
    assert [choice["finish_reason"] for choice in choices] == [None] * (len(choices) - 1) + ["stop"]
    [entry] = await sim.get("/sim/journal")
    assert (entry["emitted"], entry["finished"], entry["disconnected"]) == ([7, EOS, 8, EOS, 9], True, False)


async def test_without_a_script_the_answer_ends_at_the_first_stop_id(start):
    """Eos ends it silently, a stop id is named as the reason, `ignore_eos` leaves only the length."""
    sim = await start()
    plain = await sim.whole(sim.ask())
    assert (plain["token_ids"][-1], plain["finish_reason"], plain["stop_reason"]) == (EOS, "stop", None)
    second = plain["token_ids"][1]
    stopped = await sim.whole(sim.ask(stop_token_ids=[second]))
    assert (len(stopped["token_ids"]), stopped["finish_reason"], stopped["stop_reason"]) == (2, "stop", second)
    endless = await sim.whole(sim.ask(ignore_eos=True, max_tokens=20))
    assert (len(endless["token_ids"]), endless["finish_reason"]) == (20, "length")


async def test_the_eos_can_be_another(start):
    """Then the answer ends with that."""
    sim = await start(eos_id=7)
    assert (await sim.whole(sim.ask()))["token_ids"][-1] == 7


async def test_the_default_of_max_tokens_is_16_before_0_22_and_the_room_after(start):
    """An old engine cuts an answer short when it is not told how long it may be."""
    old, new = await start(version="0.20.2"), await start(version="0.22.0", max_model_len=43)
    script = list(range(100))
    assert (await old.whole(old.ask(script)))["token_ids"] == script[:16]
    choice = await new.whole(new.ask(script))
    assert (choice["token_ids"], choice["finish_reason"]) == (script[:40], "length")
    assert len((await new.whole(new.ask(script, max_tokens=90)))["token_ids"]) == 40


async def test_logprobs_are_float32_values_and_the_same_every_time(start):
    """A logprob survives a trip through float32, so exactness can be asserted end to end."""
    sim = await start()
    first, second = [await sim.whole(sim.ask([5, 6, 5])) for _ in range(2)]
    values = [entry["logprob"] for entry in first["logprobs"]["content"]]
    assert values == [logprob(3, 5), logprob(4, 6), logprob(5, 5)]
    assert all(value < 0 and struct.unpack("f", struct.pack("f", value))[0] == value for value in values)
    assert first["logprobs"] == second["logprobs"]


async def test_logprobs_come_only_when_asked_for(start):
    """Zero asks for them; leaving the parameter out does not."""
    sim = await start()
    assert (await sim.whole(sim.ask([5], logprobs=0)))["logprobs"]["content"][0]["token_id"] == 5
    assert (await sim.whole(sim.ask([5], logprobs=None)))["logprobs"] is None
    [event] = await sim.chunks(sim.ask([5], logprobs=None, stream=True))
    assert event["choices"][0]["logprobs"] is None


async def test_weight_versions_come_only_at_the_end_of_a_stream(start):
    """The span covers the whole output, and no earlier event has one."""
    sim = await start()
    events = await sim.chunks(sim.ask([5, 6, 7], stream=True))
    spans = [event["choices"][0]["weight_versions"] for event in events]
    assert spans == [None, None, [{"version": "default", "start": 0, "end": 3}]]


@pytest.mark.parametrize(("version", "sizes"), [("0.26.0", [1] * 7), ("0.27.0", [1, 3, 3])])
async def test_stream_interval_groups_tokens_since_0_27(start, version, sizes):
    """The first token still comes alone; releases that do not know the parameter ignore it."""
    sim = await start(version=version)
    events = await sim.chunks(sim.ask(list(range(7)), stream=True, stream_interval=3))
    assert [len(event["choices"][0]["token_ids"]) for event in events] == sizes


@pytest.mark.parametrize(
    ("version", "keys"),
    [
        ("0.20.2", {"prompt_tokens", "total_tokens", "completion_tokens"}),
        ("0.32.0", {"prompt_tokens", "total_tokens", "completion_tokens", "prompt_tokens_details"}),
    ],
)
async def test_a_usage_event_follows_the_last_token_when_asked_for(start, version, keys):
    """It has no choices, and every other event has null usage."""
    sim = await start(version=version)
    body = {**sim.ask([5, 6], stream=True), "stream_options": {"include_usage": True}}
    *events, last = await sim.chunks(body)
    assert [event["usage"] for event in events] == [None, None]
    assert last["choices"] == []
    assert set(last["usage"]) == keys


async def test_a_bad_request_is_refused_in_the_shape_of_vllm(start):
    """Missing or empty fields are 400, a model that is not served is 404, streamed or not."""
    sim = await start()
    params: dict[str, object] = {"sampling_params": {}}
    error: dict[str, object] = {}
    for body, status, param in (
        (params, 400, "body.token_ids"),
        ({"token_ids": [], **params}, 400, "body.token_ids"),
        ({"token_ids": [1]}, 400, "body.sampling_params"),
        ({"token_ids": [1], "model": "nope", **params}, 404, "model"),
    ):
        for stream in (False, True):
            response = await sim.post({**body, "stream": stream})
            error = (await response.json())["error"]
            assert (response.status, error["code"], error["param"]) == (status, status, param)
            assert set(error) == {"message", "type", "param", "code"}
    assert str(error["message"]).startswith("The model `nope` does not exist.")


async def test_an_old_engine_repeats_the_request_in_its_errors(start):
    """Releases before 0.32 put the body into the message, ids and all: not a text to pass on."""
    response = await (await start(version="0.20.2")).post({"token_ids": [31337]})
    error = (await response.json())["error"]
    assert "31337" in error["message"]
    assert error["param"] is None


async def test_a_prompt_that_is_too_long_is_refused_inside_a_stream(start):
    """Not streaming it is a 400; streaming it is a 200 whose first event is the error."""
    sim = await start(max_model_len=3)
    response = await sim.post(sim.ask([5]))
    assert response.status == 400
    [event] = await sim.chunks(sim.ask([5], stream=True))
    assert event == await response.json()
    assert event["error"]["code"] == 400


async def test_the_engine_tells_what_it_serves(start):
    """Models, version and health read as they do on a real engine."""
    sim = await start(model="m", max_model_len=99, version="0.20.2")
    [card] = (await sim.get("/v1/models"))["data"]
    assert (card["id"], card["max_model_len"]) == ("m", 99)
    assert await sim.get("/version") == {"version": "0.20.2"}
    health = await sim.http.get("/health")
    assert (health.status, await health.read()) == (200, b"")
    metrics = await sim.metrics()
    assert 'vllm:num_requests_running{engine="0",model_name="m"} 0.0\n' in metrics
