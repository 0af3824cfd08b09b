"""Turns as a trainer reads them."""

from dataclasses import asdict, replace

import orjson

from gateway.core.canon import Difference
from gateway.core.fate import Fate
from gateway.core.sampling import record
from gateway.core.types import Completion, Cut, FinishReason, Labels, Origin, Sampling, VersionSpan, float32s, token_ids
from gateway.wire.turns import ids_of, told_turn, turn_facts, turn_object
from tests.wire.turns import completion, turn


def test_the_json_of_a_first_turn():
    """All keys, whatever their values."""
    assert {
        "turn_id": "t1",
        "parent_id": None,
        "status": "complete",
        "how": "rendered",
        "reason": "first_turn",
        "prompt_tokens": 2,
        "completion_tokens": 2,
        "overshoot_tokens": 0,
        "finish_reason": "stop",
        "ended_by": "stop",
        "engine": "http://engine-0:8000",
        "rank": 0,
        "policy_versions": [{"version": "v1", "start": 0, "end": 2, "source": "engine"}],
        "cuts": [],
        "sampling": {
            "max_tokens": 100,
            "min_tokens": 0,
            "temperature": 1.0,
            "top_p": 1.0,
            "top_k": 0,
            "min_p": 0.0,
            "presence_penalty": 0.0,
            "frequency_penalty": 0.0,
            "repetition_penalty": 1.0,
            "seed": None,
            "stop": [],
            "include_stop_str_in_output": False,
            "ignore_eos": False,
            "logit_bias": None,
            "bad_words": [],
            "allowed_token_ids": [],
            "thinking_token_budget": None,
            "repetition_detection": None,
            "extra_args": None,
            "stop_token_ids": [2],
        },
        "overridden": {},
        "distribution": "exact",
        "logprobs_mode": "unknown",
        "logprobs_exact": False,
        "differences": {},
        "flags": [],
        "thinking_retention": None,
        "tags": {},
        "train": True,
    } == turn_object(turn("t1"))


def test_the_json_of_a_bridged_turn_with_everything_odd_about_it():
    """Differences say what they concern."""
    second = turn(
        "t2",
        turn("t1"),
        differences={"content_whitespace": Difference(2, 10), "reasoning_dropped": Difference(1, 3)},
        labels=Labels({"agent": "a/1"}, train=False),
        sampling=record(
            Sampling(temperature=0.7, stop=("END",)), max_tokens=9, overridden={"seed": 7}, logprobs_mode="processed"
        ),
        ended_by="client_gone",
        flags=("stop_cut", "malformed_tool_call"),
        origin=Origin("http://engine-1:8000", 3, "all"),
        completion=Completion(
            token_ids([7, 8, 9]),
            float32s([-1.0] * 3),
            FinishReason.ABORT,
            (VersionSpan("a", 0, 1, "assumed"), VersionSpan("b", 1, 3, "fenced")),
        ),
    )
    expected = {
        "turn_id": "t2",
        "parent_id": "t1",
        "status": "aborted",
        "how": "bridged",
        "reason": None,
        "prompt_tokens": 6,
        "completion_tokens": 3,
        "overshoot_tokens": 0,
        "finish_reason": "abort",
        "ended_by": "client_gone",
        "engine": "http://engine-1:8000",
        "rank": 3,
        "policy_versions": [
            {"version": "a", "start": 0, "end": 1, "source": "assumed"},
            {"version": "b", "start": 1, "end": 3, "source": "fenced"},
        ],
        "cuts": [],
        "sampling": asdict(second.sampling.effective)
        | {"stop": ["END"], "stop_token_ids": [], "bad_words": [], "allowed_token_ids": []},
        "overridden": {"seed": 7},
        "distribution": "exact",
        "logprobs_mode": "processed",
        "logprobs_exact": True,
        "differences": {
            "content_whitespace": {"messages": 2, "tokens": 10},
            "reasoning_dropped": {"messages": 1, "tokens": 3},
        },
        "flags": ["stop_cut", "malformed_tool_call"],
        "thinking_retention": "all",
        "tags": {"agent": "a/1"},
        "train": False,
    }
    assert expected == turn_object(second)


def test_what_an_agent_may_say_is_not_among_the_facts_fit_for_logs():
    """Stop strings, `extra_args`, biases and tags may say anything."""
    odd = Sampling(stop=("secret",), extra_args={"x": "secret"}, logit_bias={"5": 1.0})
    said = turn("t1", sampling=record(odd, max_tokens=9, overridden={"stop": "secret"}), labels=Labels({"a": "secret"}))
    facts = turn_facts(said)

    assert turn_object(said) == turn_object(said) | facts
    assert turn_object(said).keys() - facts.keys() == {"sampling", "overridden", "tags"}
    assert b"secret" not in orjson.dumps(facts)


def test_a_turn_is_told_with_what_became_of_it():
    """As far as that is known."""
    made = turn("t1")
    for fate in (Fate(None, False), Fate(False, True), Fate(True, False, continued=True)):
        told = {"delivered": fate.delivered, "dropped_by_harness": fate.dropped}
        assert told_turn(made, fate) == turn_object(made) | told


def test_what_an_engine_was_given_and_answered_comes_as_lists():
    """The prompt of a turn holds those of the turns before."""
    first = turn("t1")
    second = turn("t2", first)
    assert ids_of(second) == {
        "prompt_ids": [*first.prompt_ids(), *first.completion.ids, 1, 2],
        "completion_ids": [7, 8],
        "logprobs": [-0.5, float32s([-1 / 3])[0]],
    }


def test_a_cut_turn_says_where_it_went_on():
    """In logs, too: nothing in it was said or sampled."""
    cut = Cut(1, "lost", "http://engine-0:8000", 0, "http://engine-1:8000", 1, "recomputed")
    cut_turn = turn("t1", completion=replace(completion(7, 8), cuts=(cut,)))
    assert turn_object(cut_turn)["cuts"] == turn_facts(cut_turn)["cuts"] == [asdict(cut)]
