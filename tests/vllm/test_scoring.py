"""A row scored by a real vLLM is what the engine said when it sampled it."""

import json
from typing import Any
from urllib.request import Request, urlopen

from tests.vllm.conversation import MODEL

CONTEXT_TOKENS = 4096


def post(url: str, body: dict[str, object]) -> Any:
    """The answer to a POST."""
    request = Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urlopen(request, timeout=300) as answer:
        return json.load(answer)


def test_a_row_that_fills_the_context_scores_as_it_was_sampled(gateway_url: str) -> None:
    """Four thousand ids at temperature 1, to the very last, which is asked for in the place of a sampled one."""
    session = f"{gateway_url}/sessions/scored"
    body = {"model": MODEL, "messages": [{"role": "user", "content": "Go on."}], "ignore_eos": True, "temperature": 1}
    post(f"{session}/v1/chat/completions", body)
    with urlopen(f"{session}/trajectories", timeout=60) as answer:
        (row,) = json.load(answer)["data"]

    scored = post(f"{gateway_url}/score", {"token_ids": row["token_ids"]})

    assert len(row["token_ids"]) == len(scored["logprobs"]) == CONTEXT_TOKENS
    assert sum(row["loss_mask"]) > 4000
    pairs = zip(scored["logprobs"], row["logprobs"], row["loss_mask"], strict=True)
    assert max(abs(score - sampled) for score, sampled, mask in pairs if mask) < 1e-3
