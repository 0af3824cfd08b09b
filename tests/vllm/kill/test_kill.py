"""One of two real engines is killed amid two answers: the other one carries them on. ``make test-kill``."""

import os
import signal
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.recorder import Exchange, Recorder, recording
from tests.vllm.conftest import answers, gateway_before, started_vllm, wait_for, warm_up
from tests.vllm.interrupted import BEGUN, check_joined, long_answer
from tests.vllm.test_first_light import listing, until


@dataclass(frozen=True, slots=True)
class RealEngine:
    """A real engine, behind a recorder."""

    recorder: Recorder
    group: int
    """The processes that it consists of."""


@pytest.fixture
def engines(cache: Path, tmp_path: Path) -> Iterator[list[RealEngine]]:
    """Two of them, warm."""
    with ExitStack() as stack:
        begun = []
        for name in ("one", "other"):
            folder = tmp_path / name
            folder.mkdir()
            begun.append((folder, *stack.enter_context(started_vllm(cache, folder))))
        engines = []
        for folder, url, process in begun:
            wait_for(lambda at=url: answers(f"{at}/health"), process, folder)  # type: ignore[misc]  # bound early
            warm_up(url)
            engines.append(RealEngine(stack.enter_context(recording(url)), process.pid))
        yield engines


def test_answers_outlive_the_engine_that_began_them(
    engines: list[RealEngine], tokenizer_dir: Path, tmp_path: Path
) -> None:
    """Streamed or not, each is one answer, whose second half the other engine sampled behind the first half."""
    one, other = engines
    logs = tmp_path / "gateway"
    logs.mkdir()
    with gateway_before(one.recorder.url, tokenizer_dir, logs, "--engine", other.recorder.url) as gateway:
        session = f"{gateway.url}/sessions/killed"
        streamed = long_answer(session, streams=True, request_id="streamed")
        whole = long_answer(session, streams=False, request_id="whole")
        with streamed as of_streamed, whole as of_whole:
            until(lambda: has_begun(one) or has_begun(other), within_s=60)
            if has_begun(other):
                one, other = other, one
            assert other.recorder.exchanges == []
            os.killpg(one.group, signal.SIGKILL)
            told = {"streamed": of_streamed.result(150), "whole": of_whole.result(150)}
        turns = listing(f"{session}/turns?ids=true")

    assert len(turns) == len(told)
    for name, ids in told.items():
        (turn,) = (turn for turn in turns if turn["completion_ids"] == ids)
        check_carried_on(turn, ids, named(name, one), named(name, other))
        (cut,) = turn["cuts"]
        assert (cut["from_engine"], cut["to_engine"]) == (one.recorder.url, other.recorder.url)


def check_carried_on(turn: dict[str, Any], told: list[int], first: Exchange, second: Exchange) -> None:
    """That the second call went on where the first was lost. What was on its way then was sampled again."""
    (cut,) = turn["cuts"]
    assert (cut["reason"], cut["kv"]) == ("lost", "recomputed")
    assert 0 < cut["position"] <= len(first.completion)
    del first.completion[cut["position"] :], first.logprobs[cut["position"] :]
    assert check_joined([first, second], turn, told) == [cut["position"]]


def has_begun(engine: RealEngine) -> bool:
    """Whether both answers have."""
    return [len(exchange.completion) >= BEGUN for exchange in engine.recorder.exchanges] == [True, True]


def named(name: str, engine: RealEngine) -> Exchange:
    """The only call that an engine was asked for an answer."""
    (exchange,) = (each for each in engine.recorder.exchanges if each.request_id.startswith(name))
    return exchange
