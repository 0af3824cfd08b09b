"""Scores are aligned with the ids by id, or there are none."""

import orjson
import pytest

from gateway.errors import BadRequest, ContextLengthExceeded, EngineProtocolError
from gateway.wire.score import Scores, decode_score, encode_call, encode_scores, read_scores

IDS = [5, 6, 7]


def answer(*entries, **choice):
    """What an engine answers, with the first position of the prompt, which has no logprob."""
    body = {"prompt_logprobs": [None, *entries], "choices": [{"index": 0, "token_ids": [9], **choice}]}
    return orjson.dumps(body)


def entry(**logprobs):
    """A position, its keys like `t7`."""
    return {name[1:]: {"logprob": value, "rank": 3, "decoded_token": None} for name, value in logprobs.items()}


def beside(*named):
    """The logprobs of the one sampled token."""
    first, *others = [{"token_id": token_id, "logprob": value} for token_id, value in named]
    return {"content": [{**first, "top_logprobs": [first, *others]}]}


def test_a_row_is_read_with_the_model_that_is_to_score_it():
    """The model may be left to the engine."""
    asked = decode_score(b'{"token_ids": [5, 6], "model": "teacher"}', 40)

    assert (asked.ids.tolist(), asked.model) == ([5, 6], "teacher")
    assert decode_score(b'{"token_ids": [5]}', 40).model is None


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({}, "token_ids"),
        ({"token_ids": []}, "token_ids"),
        ({"token_ids": [5, True]}, "token_ids"),
        ({"token_ids": [5, 6.0]}, "token_ids"),
        ({"token_ids": "5"}, "token_ids"),
        ({"token_ids": [5, -1]}, "token_ids"),
        ({"token_ids": [5, 1 << 32]}, "token_ids"),
        ({"token_ids": [5], "model": ""}, "model"),
        ({"token_ids": [5], "temperature": 0.7}, "temperature"),
    ],
)
def test_an_ill_request_is_refused_by_the_name_of_its_field(body, param):
    """Parameters of sampling are no parameters of scoring."""
    with pytest.raises(BadRequest) as refused:
        decode_score(orjson.dumps(body), 40)
    assert refused.value.param == param
    assert "None" not in str(refused.value)


def test_a_row_far_beyond_every_context_is_refused_before_it_is_read():
    """Be it no JSON at all; one that is a little longer is read, and refused where it finds its engine."""
    with pytest.raises(ContextLengthExceeded, match="holds 40"):
        decode_score(b"," * 105, 40)
    assert len(decode_score(orjson.dumps({"token_ids": [1] * 105, "model": "m"}), 41).ids) == 105


def test_an_engine_is_asked_for_one_token_and_the_logprobs_of_the_prompt():
    """In one piece, at temperature 1."""
    body = orjson.loads(encode_call(IDS, "m", fills_context=False))

    assert (body["token_ids"], body["model"], body["stream"]) == (IDS, "m", False)
    wanted = {"max_tokens": 1, "temperature": 1.0, "prompt_logprobs": 0}
    assert wanted.items() <= body["sampling_params"].items()


@pytest.mark.parametrize(("last", "other"), [(7, 0), (0, 1)])
def test_the_last_id_of_a_row_that_fills_the_context_is_asked_for_by_name(last, other):
    """There must be room for a token, which is sampled without truncation."""
    body = orjson.loads(encode_call([5, 6, last], None, fills_context=True))

    assert (body["token_ids"], "model" in body) == ([5, 6], False)
    wanted = {
        "logprob_token_ids": [last, other],
        "logprobs": 2,
        "top_p": 1.0,
        "top_k": 1 << 20,
        "repetition_penalty": 1.0,
    }
    assert wanted.items() <= body["sampling_params"].items()


def test_scores_are_found_by_id_whatever_stands_beside():
    """The first position follows nothing; an engine may name likelier ids at the others."""
    scores = read_scores(answer(entry(t8=-0.1, t6=-0.5), entry(t7=0, t9=-0.25)), IDS, fills_context=False)

    assert scores == Scores([0.0, -0.5, 0.0], ())


@pytest.mark.parametrize(
    ("logprobs", "last"),
    [
        (beside((9, -0.1), (7, -2.5), (0, -8.0)), -2.5),
        (beside((7, -2.5), (0, -8.0)), -2.5),
        (
            {
                "content": [
                    {"token": "token_id:9", "logprob": -1, "top_logprobs": [{"token": "token_id:7", "logprob": -2.5}]}
                ]
            },
            -2.5,
        ),
        (beside((9, -0.1), (0, -8.0)), None),
        ({"content": [{"token_id": 9, "logprob": -0.1}]}, None),
        ({"content": [{"top_logprobs": [None]}]}, None),
        ({"content": []}, None),
        ({"content": [None]}, None),
        (None, None),
    ],
)
def test_the_last_of_a_full_context_stands_in_the_place_of_the_sampled_one(logprobs, last):
    """An engine that does not name it leaves it unknown."""
    scores = read_scores(answer(entry(t6=-0.5), logprobs=logprobs), IDS, fills_context=True)

    assert scores.logprobs == [0.0, -0.5, last]


@pytest.mark.parametrize("value", [None, "-1", True, False, 0.25, -9999.0])
def test_a_logprob_that_is_none_is_the_engines_fault_at_a_position(value):
    """Missing, no number, above zero, or what stands for minus infinity."""
    with pytest.raises(EngineProtocolError, match="token id 7 at position 2"):
        read_scores(answer(entry(t6=-0.5), entry(t7=value)), IDS, fills_context=False)
    with pytest.raises(EngineProtocolError, match="token id 7 at position 2"):
        read_scores(answer(entry(t6=-0.5), logprobs=beside((9, -0.1), (7, value))), IDS, fills_context=True)


@pytest.mark.parametrize("ill", [None, {}, entry(t8=-1.0), {"7": -1.0}, [-1.0]])
def test_a_position_that_does_not_name_its_id_is_the_engines_fault(ill):
    """Then the answer speaks of something else."""
    with pytest.raises(EngineProtocolError, match="no logprob of token id 7 at position 2"):
        read_scores(answer(entry(t6=-0.5), ill), IDS, fills_context=False)


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b"", "no prompt_logprobs of 3"),
        (b"[]", "no prompt_logprobs"),
        (b'{"prompt_logprobs": null}', "no prompt_logprobs"),
        (b'{"prompt_logprobs": [null, {}, NaN]}', "no prompt_logprobs"),
        (answer(entry(t6=-0.5)), "2 prompt_logprobs of 3"),
        (answer(entry(t6=-0.5), entry(t7=-0.5), entry(t8=-0.5)), "4 prompt_logprobs of 3"),
    ],
)
def test_an_answer_of_another_length_is_the_engines_fault(body, why):
    """As is one that is no JSON."""
    with pytest.raises(EngineProtocolError, match=why):
        read_scores(body, IDS, fills_context=False)


@pytest.mark.parametrize(
    ("spans", "versions"),
    [
        ([{"version": "v2", "start": 0, "end": 1}], ("v2",)),
        ([{"version": "default", "start": 0, "end": 1}], ()),
        ([{"version": "v2"}, {"version": "v3"}, {"version": "v2"}, {"version": 4}, None], ("v2", "v3")),
        (None, ()),
    ],
)
def test_policy_versions_are_named_where_the_engine_names_them(spans, versions):
    """Nobody has announced "default"."""
    scores = read_scores(answer(weight_versions=spans), [5], fills_context=False)

    assert scores == Scores([0.0], versions)
    shown = orjson.loads(encode_scores(scores, "http://engine", 1))
    assert shown == {"logprobs": [0.0], "engine": "http://engine", "rank": 1} | (
        {"policy_versions": list(versions)} if versions else {}
    )


def test_without_a_choice_there_are_scores_all_the_same():
    """The token that is sampled is of no interest."""
    body = orjson.dumps({"prompt_logprobs": [None, entry(t6=-0.5)], "choices": []})

    assert read_scores(body, [5, 6], fills_context=False).logprobs == [0.0, -0.5]
