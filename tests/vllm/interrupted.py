"""A long answer of a real engine that is interrupted: how it is asked for, and what must be true of it afterwards."""

import json
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from itertools import accumulate, pairwise
from typing import Any
from urllib.request import Request, urlopen

from openai import OpenAI

from tests.recorder import Exchange
from tests.vllm.conversation import MODEL

LENGTH = 1_600
"""Ids of the answer, whatever the model would rather do."""
BEGUN = 20
"""So many have come before anything happens."""


@contextmanager
def long_answer(session_url: str, *, streams: bool, request_id: str | None = None) -> Iterator["Future[list[int]]"]:
    """A client that tries nothing a second time; the ids that it is told in the end."""
    with ThreadPoolExecutor(1) as thread:
        yield thread.submit(_ask, session_url, streams, {"X-Request-Id": request_id} if request_id else {})


def _ask(session_url: str, streams: bool, headers: Mapping[str, str]) -> list[int]:
    client = OpenAI(base_url=f"{session_url}/v1", api_key="none", max_retries=0, timeout=180, default_headers=headers)
    asked: Any = {"model": MODEL, "messages": [{"role": "user", "content": "Tell me everything."}]}
    asked |= {"max_tokens": LENGTH, "extra_body": {"ignore_eos": True, "return_token_ids": True}}
    if not streams:
        (choice,) = client.chat.completions.create(**asked).choices
        assert choice.finish_reason == "length"
        return list(choice.model_dump()["token_ids"])
    ids: list[int] = []
    reasons = []
    for chunk in client.chat.completions.create(stream=True, **asked):
        for part in chunk.choices:
            ids += part.model_dump().get("token_ids") or []
            reasons += [part.finish_reason] if part.finish_reason else []
    assert reasons == ["length"]
    return ids


def post(url: str, body: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The answer to a POST."""
    request = Request(url, json.dumps(body or {}).encode(), {"Content-Type": "application/json"}, method="POST")
    with urlopen(request, timeout=60) as answer:
        told: dict[str, Any] = json.loads(answer.read() or b"{}")
        return told


def check_joined(exchanges: Sequence[Exchange], turn: Mapping[str, Any], told: Sequence[int]) -> list[int]:
    """That a turn is what its calls sampled, each of which was given the prompt and what had been sampled before.

    Returns where it was cut: the beginnings of all calls but the first.
    """
    first, *_ = exchanges
    ends = list(accumulate(len(exchange.completion) for exchange in exchanges))
    joined = [token_id for exchange in exchanges for token_id in exchange.completion]
    assert turn["status"] == "complete"
    assert turn["completion_ids"] == joined == list(told)
    assert len(joined) == LENGTH
    for (before, after), end in zip(pairwise(exchanges), ends, strict=False):
        assert after.prompt == first.prompt + joined[:end]
        assert after.body["sampling_params"]["max_tokens"] == LENGTH - end
        assert before.completion
    assert turn["logprobs"] == [logprob for exchange in exchanges for logprob in exchange.logprobs]
    assert [cut["position"] for cut in turn["cuts"]] == ends[:-1]
    return ends[:-1]
