"""Weights change amid an answer of a real engine: it is one answer, and each of its ids has the version that sampled it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.recorder import Exchange, Recorder
from tests.vllm.conftest import gateway_before
from tests.vllm.interrupted import BEGUN, LENGTH, check_joined, long_answer, post
from tests.vllm.test_first_light import listing, sampled, until

OLD, NEW = "step-7", "step-8"


@pytest.fixture
def versioned(vllm: str) -> Iterator[str]:
    """The engine with weights that have a name."""
    post(f"{vllm}/update_weight_version", {"new_version": OLD})
    yield vllm
    post(f"{vllm}/resume")
    post(f"{vllm}/update_weight_version", {"new_version": "default"})


@pytest.fixture(scope="module")
def controlling_url(recorder: Recorder, tokenizer_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Address of a gateway that drives the engine's own pauses."""
    folder = tmp_path_factory.mktemp("controlling")
    with gateway_before(recorder.url, tokenizer_dir, folder, "--engine-control") as gateway:
        yield gateway.url


@pytest.mark.parametrize("streams", [False, True])
def test_an_engine_that_aborts_for_new_weights_gives_one_answer_of_two_versions(
    gateway_url: str, versioned: str, exchanges: list[Exchange], streams: bool
) -> None:
    """The trainer talks to the engine alone: pause with abort, new version, resume."""
    session = f"{gateway_url}/sessions/aborted-{streams}"

    with long_answer(session, streams=streams) as answer:
        until(lambda: sampled(exchanges) >= BEGUN, within_s=30)
        post(f"{versioned}/pause?mode=abort")
        post(f"{versioned}/update_weight_version", {"new_version": NEW})
        post(f"{versioned}/resume")
        told = answer.result(120)

    (turn,) = listing(f"{session}/turns?ids=true")
    (position,) = check_joined(exchanges, turn, told)
    assert exchanges[0].finish_reason == "abort"
    assert BEGUN <= position < LENGTH
    assert turn["policy_versions"] == spans(position)
    assert [cut["reason"] for cut in turn["cuts"]] == ["abort"]


@pytest.mark.parametrize("streams", [False, True])
def test_a_trainer_that_cuts_through_the_gateway_gets_the_same(
    controlling_url: str, versioned: str, exchanges: list[Exchange], streams: bool
) -> None:
    """It says so once, and the gateway pauses the engine and resumes it."""
    session = f"{controlling_url}/sessions/cut-{streams}"

    with long_answer(session, streams=streams) as answer:
        until(lambda: sampled(exchanges) >= BEGUN, within_s=30)
        post(f"{controlling_url}/admin/pause", {"mode": "cut", "owner": "trainer"})
        post(f"{versioned}/update_weight_version", {"new_version": NEW})
        assert not answer.done()
        post(f"{controlling_url}/admin/resume", {"version": NEW, "owner": "trainer"})
        told = answer.result(120)

    (turn,) = listing(f"{session}/turns?ids=true")
    (position,) = check_joined(exchanges, turn, told)
    assert BEGUN <= position < LENGTH
    assert turn["policy_versions"] == spans(position)
    assert turn["cuts"][0]["reason"] in ("abort", "pause")


def spans(position: int) -> list[dict[str, object]]:
    """Two versions, as the engine itself says."""
    return [
        {"version": OLD, "start": 0, "end": position, "source": "engine"},
        {"version": NEW, "start": position, "end": LENGTH, "source": "engine"},
    ]
