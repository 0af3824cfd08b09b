"""What an engine is asked, in vLLM's words."""

import json
from typing import Any

import orjson
import pytest

from gateway.core.types import Sampling, TurnRequest
from gateway.errors import BadRequest
from gateway.wire.generate import encode_request, sends_each_id_alone
from tests.wire.anything import golden


def strict(value: object) -> str:
    """JSON text in which 1, 1.0 and true differ and the order of keys does not matter."""
    return json.dumps(value, sort_keys=True)


@golden("requests")
def test_a_request_is_written_as_its_golden_file_says(case):
    """Nothing more and nothing less than what was asked for."""
    sampling: dict[str, Any] = {name: tuple(v) if isinstance(v, list) else v for name, v in case["sampling"].items()}
    request = TurnRequest(messages=(), sampling=Sampling(**sampling), **case["request"])
    body = encode_request(case["ids"], request, max_tokens=case["max_tokens"], stop_ids=case["stop_token_ids"])
    assert strict(case["body"]) == strict(orjson.loads(body))


@pytest.mark.parametrize(("least", "sent"), [(None, None), (0, 0), (3, 3), (4, 4), (5, 4)])
def test_a_limit_is_also_the_most_that_must_be_sampled(least, sent):
    """The limit may have been cut below what the agent asked for; engines refuse such a pair."""
    request = TurnRequest(messages=(), sampling=Sampling(min_tokens=least))
    body = orjson.loads(encode_request([1], request, max_tokens=4, stop_ids=[]))
    assert body["sampling_params"].get("min_tokens") == sent


def test_the_engine_is_asked_for_events_of_a_size():
    """What the operator says goes for every call."""
    body = orjson.loads(encode_request([1], TurnRequest(()), max_tokens=4, stop_ids=[], stream_interval_tokens=3))
    assert body["sampling_params"]["stream_interval"] == 3


@pytest.mark.parametrize(("shown", "asked"), [(None, 1), (0, 1), (1, 2), (5, 6), (19, 20), (20, 20)])
def test_the_engine_is_asked_for_one_alternative_more_than_the_client_sees(shown, asked):
    """It counts the sampled id as the first, and has no more than twenty."""
    request = TurnRequest(messages=(), top_logprobs=shown)
    body = orjson.loads(encode_request([1], request, max_tokens=4, stop_ids=[]))
    assert body["sampling_params"]["logprobs"] == asked
    assert set(body) == {"token_ids", "sampling_params", "stream"}


@pytest.mark.parametrize("version", [(0, 32), (0, 33), (1, 0)])
def test_a_grammar_goes_out_with_the_word_that_no_thought_is_to_be_waited_for(version):
    """Or an engine with a reasoning parser answers as if there was none."""
    request, grammar = TurnRequest(messages=()), {"choice": ["yes", "no"]}
    body = encode_request([1], request, max_tokens=4, stop_ids=[], structured_outputs=grammar, version=version)
    free = encode_request([1], request, max_tokens=4, stop_ids=[], version=version)
    bound = orjson.loads(body)
    assert (True, grammar) == (bound.pop("reasoning_ended"), bound["sampling_params"].pop("structured_outputs"))
    assert bound == orjson.loads(free)


@pytest.mark.parametrize(("version", "shown"), [((0, 31), "0.31"), ((0, 9), "0.9"), (None, "unknown")])
def test_an_engine_that_might_ignore_a_grammar_is_not_asked(version, shown):
    """The caller reads which version it takes, and which there is; the same request without a grammar goes out."""
    request = TurnRequest(messages=())
    with pytest.raises(BadRequest, match=rf"need vLLM 0\.32 or later.*version of this engine is {shown}"):
        encode_request([1], request, max_tokens=4, stop_ids=[], structured_outputs={"regex": "a"}, version=version)
    assert encode_request([1], request, max_tokens=4, stop_ids=[], version=version)


@pytest.mark.parametrize(("start", "asked"), [(0, {}), (7, {"routed_experts_prompt_start": 7})])
def test_experts_that_are_known_are_not_asked_for(start, asked):
    """With nothing known nothing is said, since 0 is the default."""
    body = orjson.loads(
        encode_request([1], TurnRequest(()), max_tokens=4, stop_ids=[], routed_experts_prompt_start=start)
    )
    assert asked.items() <= body["sampling_params"].items()
    assert ("routed_experts_prompt_start" in body["sampling_params"]) == bool(start)


@pytest.mark.parametrize(
    ("interval", "version", "alone"),
    [(8, (0, 26), True), (8, (0, 27), False), (1, (0, 32), True), (1, None, True), (8, None, False)],
)
def test_an_engine_that_gathers_ids_holds_some_back(interval, version, alone):
    """Those before 0.27 cannot; of one whose version is not known it is assumed."""
    assert sends_each_id_alone(interval, version) == alone


def test_a_call_that_goes_on_asks_what_was_cached():
    """Others do not: it is an event more."""
    request = TurnRequest(messages=())
    bare = orjson.loads(encode_request([1], request, max_tokens=4, stop_ids=[]))
    told = orjson.loads(encode_request([1], request, max_tokens=4, stop_ids=[], include_usage=True))
    assert told == bare | {"stream_options": {"include_usage": True}}


def test_words_and_ids_that_bound_an_answer_are_passed_on():
    """In vLLM's names; a budget of none is one."""
    pattern = {"max_pattern_size": 2, "min_pattern_size": 1, "min_count": 2}
    asked = {"bad_words": ["no"], "allowed_token_ids": [1, 2], "thinking_token_budget": 0}
    sampling = Sampling(
        bad_words=("no",), allowed_token_ids=(1, 2), thinking_token_budget=0, repetition_detection=pattern
    )
    body = orjson.loads(encode_request([1], TurnRequest((), sampling=sampling), max_tokens=4, stop_ids=[]))
    assert asked | {"repetition_detection": pattern} == {
        name: body["sampling_params"][name] for name in [*asked, "repetition_detection"]
    }
