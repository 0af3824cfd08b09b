"""What a row says of its logprobs, held against the model itself: Hugging Face's forward pass in float32."""

import json
from collections.abc import Sequence
from http import HTTPStatus
from pathlib import Path
from time import sleep
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
from openai import OpenAI
from tokenizers import Tokenizer

from tests.vllm.conftest import gateway_before
from tests.vllm.conversation import MODEL, STEPS, TOOLS, converse, scripts
from tests.vllm.truth.conftest import Reference, Row

TOLERANCE_NATS = 1e-3
CONTEXT_TOKENS = 4096
LIMITS = (200, 200, None)
"""Tokens that each answer may have; the last one takes what is left of the context."""

CALLED = {
    "role": "assistant",
    "content": "",
    "tool_calls": [
        {"id": "call_of_theirs", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Zürich"}'}}
    ],
}
RESULT = {"role": "tool", "tool_call_id": "call_of_theirs", "content": "12°, drizzle"}


def test_scripted_turns_with_tools_have_the_models_own_logprobs_in_raw_mode(
    gateway_url: str, tokenizer: Tokenizer, reference: Reference
) -> None:
    """A forced id keeps the logprob that the model gave it, and so the row is what the model itself says."""
    have_told(gateway_url, "raw")
    session = f"{gateway_url}/sessions/raw-truth"

    converse(f"{session}/v1", scripts(tokenizer))

    rows = got(f"{session}/trajectories")
    assert len(rows[-1]["turns"]) == len(STEPS)
    assert {turn["logprobs_mode"] for turn in turns_of(rows)} == {"raw"}
    assert worst(rows, reference(rows)) <= TOLERANCE_NATS
    assert exact_tokens(rows) == sum(sum(row["loss_mask"]) for row in rows) > 200


def test_unscripted_turns_at_another_temperature_have_exact_logprobs_in_processed_mode(
    processed_url: str, reference: Reference
) -> None:
    """At temperature 0.7 and top_p 0.9, with tools declared and results of tools in the history."""
    have_told(processed_url, "processed")
    session = f"{processed_url}/sessions/processed-truth"

    agree(f"{session}/v1", turns=4, temperature=0.7, top_p=0.9)

    rows = got(f"{session}/trajectories")
    turns = turns_of(rows)
    assert {(turn["logprobs_mode"], turn["distribution"]) for turn in turns} == {("processed", "truncated")}
    assert {turn["how"] for turn in turns} == {"rendered", "bridged"}
    assert all(turn["logprobs_exact"] for turn in turns)
    assert worst(rows, reference(rows)) <= TOLERANCE_NATS
    assert exact_tokens(rows) > 100


def test_raw_logprobs_at_another_temperature_are_marked_and_they_are_wrong(
    gateway_url: str, reference: Reference
) -> None:
    """The mark is needed: what the engine says is far from the distribution that it sampled from."""
    session = f"{gateway_url}/sessions/raw-heat"

    agree(f"{session}/v1", turns=1, temperature=0.7)

    rows = got(f"{session}/trajectories")
    assert [turn["logprobs_exact"] for turn in turns_of(rows)] == [False]
    assert worst(rows, reference(rows), only_exact=False) > 100 * TOLERANCE_NATS


def test_a_gateway_that_requires_exact_logprobs_refuses_raw_ones_at_another_temperature(
    vllm: str, tokenizer_dir: Path, tmp_path: Path
) -> None:
    """The mode is found out by behaviour, and the refusal says how to start the engine; temperature 1 is served."""
    with gateway_before(vllm, tokenizer_dir, tmp_path, "--logprobs", "require-exact") as gateway:
        url = f"{gateway.url}/sessions/refused/v1/chat/completions"
        asked = {"model": MODEL, "messages": [{"role": "user", "content": "Hello?"}], "max_tokens": 4}

        with pytest.raises(HTTPError) as refused:
            posted(url, asked | {"temperature": 0.7})

        assert refused.value.code == HTTPStatus.BAD_REQUEST
        assert "--logprobs-mode processed_logprobs" in refused.value.read().decode()
        assert posted(url, asked | {"temperature": 1.0})["usage"]["completion_tokens"] > 0


def test_scoring_a_row_that_fills_the_context_gives_the_logprobs_of_its_sampling(processed_url: str) -> None:
    """The engine's own logprobs of a prompt agree with what it said while it sampled, each id with its own, to the last."""
    session = f"{processed_url}/sessions/long"
    messages = [{"role": "user", "content": "ab " * 2400}]
    for turn in range(3):
        answer = said(f"{session}/v1", messages, extra_body={"ignore_eos": True, "max_tokens": LIMITS[turn]})
        messages += [answer, {"role": "user", "content": f"{turn} " * 200}]

    row = max(got(f"{session}/trajectories"), key=lambda row: len(row["token_ids"]))
    score = posted(f"{processed_url}/score", {"token_ids": row["token_ids"]})["logprobs"]

    assert len(row["token_ids"]) == len(score) == CONTEXT_TOKENS
    pairs = zip(row["loss_mask"], row["logprobs"], score, strict=True)
    gaps = [abs(logprob - other) for trained, logprob, other in pairs if trained]
    assert len(gaps) > 300
    assert max(gaps) <= TOLERANCE_NATS


def have_told(url: str, mode: str) -> None:
    """Have the engine asked of what it returns logprobs, for a turn that hangs on it; wait until it says `mode`."""
    agree(f"{url}/sessions/asks-{mode}/v1", turns=1, temperature=0.7)
    for _ in range(100):
        if {engine["logprobs"] for engine in got(f"{url}/admin/engines")} == {mode}:
            return
        sleep(0.1)
    raise AssertionError(f"it has not told that its logprobs are {mode}")


def agree(base_url: str, *, turns: int, **sampling: Any) -> None:
    """Talk with the model, which says what it likes; a tool's result stands in the history from the first turn on."""
    messages: list[Any] = [{"role": "user", "content": "How is the weather in Zürich?"}, CALLED, RESULT]
    for turn in range(turns):
        messages.append(said(base_url, messages, max_tokens=48, **sampling))
        messages.append({"role": "user", "content": f"Go on, for the {turn + 1}. time."})


def said(base_url: str, messages: Sequence[Any], **asked: Any) -> dict[str, Any]:
    """What the model answers, as an agent sends it back."""
    with OpenAI(base_url=base_url, api_key="unused", max_retries=0, timeout=120) as client:
        answer = client.chat.completions.create(model=MODEL, messages=list(messages), tools=list[Any](TOOLS), **asked)
    message: dict[str, Any] = answer.choices[0].message.model_dump(exclude_none=True)
    return message


def worst(rows: Sequence[Row], scores: Sequence[Sequence[Sequence[float]]], *, only_exact: bool = True) -> float:
    """The largest difference of a trained id's logprob from the reference, nats."""
    gaps = [
        abs(logprob - true)
        for row, turns in zip(rows, scores, strict=True)
        for turn, found in zip(row["turns"], turns, strict=True)
        if turn["trained"] and (turn["logprobs_exact"] or not only_exact)
        for logprob, true in zip(row["logprobs"][turn["start"] : turn["end"]], found, strict=True)
    ]
    return max(gaps)


def exact_tokens(rows: Sequence[Row]) -> int:
    """How many trained ids have exact logprobs."""
    turns = (turn for turn in turns_of(rows) if turn["trained"] and turn["logprobs_exact"])
    return sum(turn["end"] - turn["start"] for turn in turns)


def turns_of(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """The turns of all rows."""
    return [turn for row in rows for turn in row["turns"]]


def got(url: str) -> list[Row]:
    """All pages of a listing."""
    rows, cursor = [], ""
    while cursor is not None:
        with urlopen(f"{url}?cursor={cursor}" if cursor else url) as answer:
            page = json.load(answer)
        rows += page["data"]
        cursor = page["next"]
    return rows


def posted(url: str, body: dict[str, Any]) -> Any:
    """The answer to a POST."""
    with urlopen(Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"}), timeout=300) as answer:
        return json.load(answer)
