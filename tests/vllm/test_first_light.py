"""The promise of the gateway, kept on a real vLLM: what is trained on is what the engine read and sampled."""

import http.client
import json
import time
from collections.abc import Callable
from contextlib import closing
from http import HTTPStatus
from itertools import pairwise
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import urlopen

from tokenizers import Tokenizer

from tests.recorder import Exchange
from tests.vllm.conversation import MODEL, STEPS, converse, scripts


def test_every_prompt_extends_the_last_and_the_row_is_what_the_engine_returned(
    gateway_url: str, exchanges: list[Exchange], tokenizer: Tokenizer
) -> None:
    """Eight turns with tools and thinking become one row: every id and logprob as the engine gave it."""
    scripted, session = scripts(tokenizer), f"{gateway_url}/sessions/first-light"

    converse(f"{session}/v1", scripted)

    assert [exchange.completion for exchange in exchanges] == scripted
    for last, following in pairwise(exchanges):
        assert extends(following.prompt, last.prompt + last.completion)

    (row,) = listing(f"{session}/trajectories")
    assert row["token_ids"] == exchanges[-1].prompt + exchanges[-1].completion
    assert len(row["token_ids"]) == len(row["loss_mask"]) == len(row["logprobs"])
    assert masked(row, "token_ids") == [token for exchange in exchanges for token in exchange.completion]
    assert masked(row, "logprobs") == [logprob for exchange in exchanges for logprob in exchange.logprobs]
    assert sum(row["loss_mask"]) == sum(map(len, scripted))

    turns = listing(f"{session}/turns")
    assert [turn["status"] for turn in turns] == ["complete"] * len(STEPS)
    assert [turn["how"] for turn in turns[1:]] == ["bridged"] * (len(STEPS) - 1)


def test_the_engines_own_chat_endpoint_drifts_on_the_same_conversation(vllm: str, tokenizer: Tokenizer) -> None:
    """Without the gateway, the engine reads a past that it did not sample, in most turns."""
    scripted = scripts(tokenizer)

    answers = [answer.model_dump() for answer in converse(f"{vllm}/v1", scripted)]

    prompts = [answer["prompt_token_ids"] for answer in answers]
    assert [answer["choices"][0]["token_ids"] for answer in answers] == scripted
    contexts = [prompt + completion for prompt, completion in zip(prompts, scripted, strict=True)]
    drifted = [not extends(prompt, context) for context, prompt in zip(contexts, prompts[1:], strict=False)]
    assert sum(drifted) > len(drifted) / 2


def test_a_client_that_hangs_up_stops_the_engine(gateway_url: str, vllm: str, exchanges: list[Exchange]) -> None:
    """The engine stops within seconds of the client, and the turn keeps what was sampled until then."""
    session = f"{gateway_url}/sessions/hang-up"

    with closing(ask_for_a_long_answer(session)):
        until(lambda: running(vllm) == 1 and sampled(exchanges) >= 20, within_s=20)

    until(lambda: running(vllm) == 0, within_s=5)
    until(lambda: gauge(gateway_url, "gateway_turns_in_flight") == 0, within_s=5)
    until(lambda: turns_so_far(session) != [], within_s=5)
    (exchange,), (turn,) = exchanges, turns_so_far(session)
    assert exchange.finish_reason is None
    assert turn["status"] == "aborted"
    assert 0 < turn["completion_tokens"] <= len(exchange.completion)


def ask_for_a_long_answer(session: str) -> http.client.HTTPConnection:
    """Send a request that runs for most of a minute; the connection is still waiting for its answer."""
    messages = [{"role": "user", "content": "Tell me everything."}]
    body = {"model": MODEL, "messages": messages, "max_tokens": 3900, "ignore_eos": True}
    address = urlsplit(f"{session}/v1/chat/completions")
    client = http.client.HTTPConnection(address.netloc, timeout=60)
    client.request("POST", address.path, json.dumps(body), {"Content-Type": "application/json"})
    return client


def turns_so_far(session: str) -> list[dict[str, Any]]:
    """The session's turns; none while the gateway does not know it, as before its first turn is recorded."""
    try:
        return listing(f"{session}/turns")
    except HTTPError as error:
        error.close()
        if error.code != HTTPStatus.NOT_FOUND:
            raise
        return []


def extends(ids: list[int], beginning: list[int]) -> bool:
    """Whether `ids` are `beginning` and something more."""
    return len(ids) > len(beginning) and ids[: len(beginning)] == beginning


def masked(row: dict[str, Any], column: str) -> list[Any]:
    """The values of a row's column at the positions that are trained on."""
    return [value for value, trained in zip(row[column], row["loss_mask"], strict=True) if trained]


def listing(url: str) -> list[dict[str, Any]]:
    """All of a list that fits on one page."""
    with urlopen(url, timeout=10) as answer:
        page = json.load(answer)
    assert page["next"] is None
    return list(page["data"])


def sampled(exchanges: list[Exchange]) -> int:
    """Tokens the engine has returned so far, over all exchanges."""
    return sum(len(exchange.completion) for exchange in exchanges)


def running(vllm: str) -> float:
    """Requests the engine is working on, in its own words."""
    return gauge(vllm, "vllm:num_requests_running")


def gauge(url: str, name: str) -> float:
    """The sum of a metric over its labels."""
    with urlopen(f"{url}/metrics", timeout=10) as answer:
        lines = answer.read().decode().splitlines()
    values = [float(line.split()[-1]) for line in lines if line.startswith((f"{name}{{", f"{name} "))]
    assert values, f"{url} has no metric {name}"
    return sum(values)


def until(holds: Callable[[], bool], *, within_s: float) -> None:
    """Wait until `holds` is true.

    Raises:
        AssertionError: it is not within `within_s` seconds.
    """
    deadline = time.monotonic() + within_s
    while not holds():
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {within_s} s")
        time.sleep(0.05)
