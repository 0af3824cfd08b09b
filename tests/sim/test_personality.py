"""Releases differ in what they open, refuse and say."""

import pytest

from gateway.sim import create_sim


@pytest.mark.parametrize(("version", "status"), [("0.29.0", 200), ("0.30.0", 404), ("0.31.0", 404), ("0.32.0", 403)])
async def test_without_the_scale_out_flag_newer_releases_keep_generate_shut(start, version, status):
    """As if it were not there, then with a reason; the rest of the server is open."""
    sim = await start(version=version, scale_out=False)
    response = await sim.post(sim.ask([5]))
    assert response.status == status
    if status == 404:
        assert await response.json() == {"detail": "Not Found"}
    if status == 403:
        assert (await response.json())["error"]["type"] == "PermissionDeniedError"
    assert (await sim.http.get("/health")).status == 200


@pytest.mark.parametrize(
    ("old", "new", "body"),
    [
        (("Bad Request", None), ("Bad Request", "body.token_ids"), {"token_ids": [-1]}),
        (("Bad Request", None), ("Bad Request", "body.token_ids"), {"token_ids": ["x"]}),
        (("BadRequestError", None), ("Bad Request", "body.token_ids"), {"token_ids": []}),
        (("Bad Request", None), ("Bad Request", "body.sampling_params"), {"sampling_params": {"n": "two"}}),
        (("Bad Request", "max_tokens"), ("BadRequestError", "max_tokens"), {"sampling_params": {"max_tokens": 0}}),
        (("BadRequestError", "logprobs"), ("BadRequestError", "logprobs"), {"sampling_params": {"logprobs": 21}}),
    ],
)
async def test_what_is_refused_is_refused_in_the_words_of_the_release(start, old, new, body):
    """The kind of error and the parameter that it names."""
    for version, expected in (("0.20.2", old), ("0.32.0", new)):
        sim = await start(version=version)
        response = await sim.post({**sim.ask([5]), **body})
        refusal = (await response.json())["error"]
        assert (response.status, refusal["type"], refusal["param"]) == (400, *expected)


async def test_a_body_that_is_no_json_object_is_refused(start):
    """Wrong type, bad JSON, a list: always a 400, never a crash, and nothing in the journal."""
    sim = await start()
    for data, kind in ((b"{}", "text/plain"), (b"{", "application/json"), (b"[]", "application/json")):
        response = await sim.http.post("/inference/v1/generate", data=data, headers={"Content-Type": kind})
        assert (response.status, (await response.json())["error"]["code"]) == (400, 400)
    assert await sim.get("/sim/journal") == []


async def test_the_number_of_ranks_can_be_found_out(start):
    """From the configuration, as JSON or as text, and from the metrics."""
    sim = await start(ranks=3)
    info = await sim.get("/server_info?config_format=json")
    assert info["vllm_config"]["parallel_config"]["data_parallel_size"] == 3
    assert "data_parallel_size=3" in (await sim.get("/server_info"))["vllm_config"]
    assert await sim.get("/get_world_size") == {"world_size": 3}
    assert (await sim.metrics()).count("vllm:num_requests_running{") == 3


async def test_alternatives_to_a_token_carry_its_own_id_before_0_22(start):
    """A bug of those releases; since, each has an id and a lower rank."""
    for version, named in (("0.20.2", ["token_id:5"] * 3), ("0.28.0", ["token_id:5", "token_id:6", "token_id:7"])):
        sim = await start(version=version)
        [entry] = (await sim.whole(sim.ask([5], logprobs=3)))["logprobs"]["content"]
        assert [one["token"] for one in entry["top_logprobs"]] == named
        values = [one["logprob"] for one in entry["top_logprobs"]]
        assert sorted(values, reverse=True) == values


async def test_output_that_repeats_itself_is_ended_when_asked_for(start):
    """At the end of the last repetition, with a reason of its own."""
    sim = await start()
    asked = {"max_pattern_size": 2, "min_pattern_size": 1, "min_count": 3}
    choice = await sim.whole(sim.ask([1, 5, 6, 5, 6, 5, 6, 7], repetition_detection=asked))
    assert choice["token_ids"] == [1, 5, 6, 5, 6, 5, 6]
    assert (choice["finish_reason"], choice["stop_reason"]) == ("repetition", "repetition_detected")
    assert (await sim.whole(sim.ask([1, 2, 3], repetition_detection=asked)))["finish_reason"] == "stop"


async def test_the_journal_keeps_the_latest(start):
    """As many as it was told to."""
    sim = await start(journal_size=2)
    for token_id in (1, 2, 3):
        await sim.post(sim.ask([token_id]))
    assert [entry["emitted"] for entry in await sim.get("/sim/journal")] == [[2], [3]]


@pytest.mark.parametrize(
    "wrong", [{"version": "new"}, {"ranks": 0}, {"max_running": 0}, {"block_size": 0}, {"cache_blocks": 0}]
)
def test_a_sim_that_cannot_be_is_refused_at_once(wrong):
    """With the name of what is wrong."""
    with pytest.raises(ValueError, match=next(iter(wrong))):
        create_sim(**wrong)


def test_a_folder_without_a_tokenizer_is_refused(tmp_path):
    """With its name."""
    with pytest.raises(FileNotFoundError, match=tmp_path.name):
        create_sim(tokenizer=tmp_path)
