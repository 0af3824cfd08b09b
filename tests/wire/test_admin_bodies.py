"""What is described of engines, pauses, policies and scores is what is read of them."""

from functools import partial

import pytest

from gateway.wire import engines, pause, score
from tests.wire.bodies import differing, is_read, validator

ENGINE = {"url": "http://h:1"}


def test_what_is_said_of_pauses_is_described_as_it_is_read():
    """`new_sessions` goes with `hold`, which is that of this test."""
    assert list(differing("PauseBody", pause.decode_pause, {"mode": "hold"})) == []
    assert list(differing("ResumeBody", pause.decode_resume, {})) == []
    assert list(differing("PolicyBody", pause.decode_policy, {"version": "step-1"})) == []


def test_what_is_said_of_engines_is_described_as_it_is_read():
    """A rank goes with `draining`."""
    assert list(differing("EngineBody", engines.decode_engine, {**ENGINE, "draining": True})) == []
    assert list(differing("EngineBody", engines.decode_engine, ENGINE)) == [({"rank": None}, True)]
    assert list(differing("EngineName", engines.decode_url, ENGINE)) == []


@pytest.mark.parametrize(
    "url",
    [
        "http://vllm-0.vllm.default.svc.cluster.local:30000",
        "https://gpu-7/prefix/v2",
        "http://10.0.0.7:64999#dp=99",
        f"http://{'a' * 63}:1",
        "http://xn--a:1",
    ],
)
def test_the_urls_of_engines_that_are_described_are_read(url: str):
    """Usual ones, and strange ones."""
    assert validator("EngineBody").is_valid({"url": url})
    assert is_read(engines.decode_engine, {"url": url})


def test_a_row_to_be_scored_is_described_as_it_is_read():
    """In a context of 4,096 tokens."""
    decode = partial(score.decode_score, window_tokens=4096)
    assert list(differing("ScoreBody", decode, {"token_ids": [1]})) == []
