"""The backends that are over no package, on a real vLLM: its own renders, and the tokenizer's chat template."""

import json
import subprocess
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest
from tokenizers import Tokenizer

from tests.recorder import Exchange, Recorder
from tests.vllm.conftest import Gateway, gateway_before
from tests.vllm.conversation import MODEL, OPENING, STEPS, TOOLS, converse, scripts
from tests.vllm.test_first_light import extends, listing, masked


@pytest.fixture(scope="module", params=["remote", "template"])
def other_gateway(
    request: pytest.FixtureRequest, recorder: Recorder, tokenizer_dir: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Gateway]:
    """A gateway with one of them."""
    logs = tmp_path_factory.mktemp(request.param)
    with gateway_before(recorder.url, tokenizer_dir, logs, "--renderer", request.param) as gateway:
        yield gateway


def test_a_conversation_is_exact_with_it(
    other_gateway: Gateway, exchanges: list[Exchange], vllm: str, tokenizer: Tokenizer, tmp_path: Path
) -> None:
    """Eight turns with tools and thinking: one row, and all of it as the engine read and sampled it."""
    scripted, session = scripts(tokenizer), f"{other_gateway.url}/sessions/s"

    answers = converse(f"{session}/v1", scripted)

    assert [exchange.completion for exchange in exchanges] == scripted
    first, second = exchanges[:2]
    known = first.prompt + first.completion
    assert first.prompt == rendered(vllm, list(OPENING))
    assert second.prompt == known + delta(rendered(vllm, after_first(answers[0].choices[0].message)))
    for last, following in pairwise(exchanges):
        assert extends(following.prompt, last.prompt + last.completion)

    assert [turn["how"] for turn in listing(f"{session}/turns")] == ["rendered", *["bridged"] * (len(STEPS) - 1)]
    (row,) = listing(f"{session}/trajectories")
    assert row["token_ids"] == exchanges[-1].prompt + exchanges[-1].completion
    assert masked(row, "token_ids") == [token for exchange in exchanges for token in exchange.completion]
    assert masked(row, "logprobs") == [logprob for exchange in exchanges for logprob in exchange.logprobs]
    verified(other_gateway, tmp_path / "rows.ndjson")


def rendered(vllm: str, messages: list[Any]) -> list[int]:
    """What the engine itself writes for a history."""
    body = {"model": MODEL, "messages": messages, "tools": list(TOOLS)}
    asked = Request(
        f"{vllm}/v1/chat/completions/render", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    with urlopen(asked, timeout=60) as answer:
        return list(json.load(answer)["token_ids"])


def after_first(message: Any) -> list[Any]:
    """The history that leads to the second answer, with what was thought in the first."""
    call = message.tool_calls[0]
    answer = {**message.model_dump(exclude_none=True), "reasoning": STEPS[0].reasoning}
    return [*OPENING, answer, {"role": "tool", "tool_call_id": call.id, "content": STEPS[0].reply}]


def delta(prompt: list[int]) -> list[int]:
    """What stands behind the last answer in a prompt."""
    end = 151645  # <|im_end|>, of which the result of a tool has one, and the answer the one before
    ends = [at for at, token_id in enumerate(prompt) if token_id == end]
    return prompt[ends[-2] + 1 :]


def verified(gateway: Gateway, rows: Path) -> None:
    """Export the session and hold every claim of its rows to account."""
    command = str(Path(sys.executable).with_name("gateway"))
    export = [command, "sessions", "export", "--gateway", gateway.url, "--session", "s", "--out", str(rows)]
    subprocess.run(export, check=True, capture_output=True)
    subprocess.run([command, "verify", str(rows)], check=True, capture_output=True)
