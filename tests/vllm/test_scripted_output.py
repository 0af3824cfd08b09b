"""The tools of this folder, proven on the real engine before the gateway is put between."""

import json
from typing import Any
from urllib.request import Request, urlopen

import pytest
from tokenizers import Tokenizer

from tests.recorder import GENERATE, Exchange, Recorder
from tests.vllm.completions import completion

PROMPT = [151644, 872, 198, 13048, 151645, 198, 151644, 77091, 198]


@pytest.mark.parametrize("spell", [list, json.dumps], ids=["as a list", "as JSON text"])
def test_the_engine_returns_the_script_and_the_recorder_writes_it_down(
    recorder: Recorder, exchanges: list[Exchange], tokenizer: Tokenizer, spell: Any
) -> None:
    """A scripted completion comes back id for id, with logprobs of a model that did not choose it."""
    script = completion(tokenizer, seed=1, reasoning="Why not?", content="Grüezi, 世界.", calls=[("ls", {"path": "/"})])

    generate(recorder.url, {"max_tokens": 300, "extra_args": {"script": spell(script)}})

    (exchange,) = exchanges
    assert exchange.prompt == PROMPT
    assert exchange.completion == script
    assert exchange.finish_reason == "stop"
    assert len(exchange.logprobs) == len(script)
    assert all(-9999.0 < logprob < 0.0 for logprob in exchange.logprobs)


def test_the_model_goes_on_by_itself_when_the_script_ends(recorder: Recorder, exchanges: list[Exchange]) -> None:
    """After the last scripted id, sampling is free again."""
    script = [13048] * 3

    generate(recorder.url, {"max_tokens": 8, "ignore_eos": True, "extra_args": {"script": script}})

    (exchange,) = exchanges
    assert exchange.completion[:3] == script
    assert len(exchange.completion) == 8
    assert exchange.finish_reason == "length"


def generate(url: str, sampling: dict[str, Any]) -> None:
    """One streamed generate call, read to its end."""
    body = {"token_ids": PROMPT, "stream": True, "sampling_params": {"logprobs": 1, **sampling}}
    request = Request(url + GENERATE, json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urlopen(request, timeout=60) as answer:
        answer.read()
