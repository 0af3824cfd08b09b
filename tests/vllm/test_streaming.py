"""Streams, on a real vLLM: the same answer as without, sent while the engine is at it; and an engine that stops."""

import asyncio
import json
import random
from typing import Any
from urllib.parse import urlsplit

import pytest
from openai import AsyncOpenAI, OpenAI
from tokenizers import Tokenizer

from tests.recorder import Exchange
from tests.vllm.completions import completion
from tests.vllm.conftest import Gateway
from tests.vllm.conversation import MODEL, OPENING, TOOLS
from tests.vllm.test_first_light import gauge, listing, running, turns_so_far, until

THOUGHT, CONTENT, CALL = "Rain, then.\nIs there a list?", "Let me check — 温度 🌧.", ("weather", {"city": "São Paulo"})


@pytest.fixture
def script(tokenizer: Tokenizer) -> list[int]:
    """A thought, some text and a tool call, as no tokenizer would spell them."""
    return completion(tokenizer, seed=5, content=CONTENT, reasoning=THOUGHT, calls=[CALL])


IN_TRANSIT = 17
"""Ids that may be on their way to the gateway when it hangs up on the engine: two events and the first."""


def asked(script: list[int]) -> dict[str, Any]:
    """What every client asks for."""
    extra = {"vllm_xargs": {"script": script}, "return_token_ids": True}
    return {"model": MODEL, "messages": list(OPENING), "tools": list(TOOLS), "max_tokens": 300, "extra_body": extra}


def is_the_answer(message: Any) -> None:
    """The script's message, whoever joined it."""
    assert message.content == CONTENT
    assert message.reasoning_content == THOUGHT
    (call,) = message.tool_calls
    assert (call.function.name, json.loads(call.function.arguments)) == CALL


def whole(url: str, script: list[int]) -> None:
    with OpenAI(base_url=url, api_key="unused", max_retries=0) as client:
        is_the_answer(client.chat.completions.create(**asked(script)).choices[0].message)


def in_chunks(url: str, script: list[int]) -> None:
    with OpenAI(base_url=url, api_key="unused", max_retries=0) as client:
        chunks = list(client.chat.completions.create(**asked(script), stream=True))
    joins_to_the_answer(chunks)


async def in_chunks_async(url: str, script: list[int]) -> None:
    async with AsyncOpenAI(base_url=url, api_key="unused", max_retries=0) as client:
        stream = await client.chat.completions.create(**asked(script), stream=True)
        joins_to_the_answer([chunk async for chunk in stream])


def accumulated(url: str, script: list[int]) -> None:
    client = OpenAI(base_url=url, api_key="unused", max_retries=0)
    with client, client.chat.completions.stream(**asked(script)) as stream:
        kinds = [event.type for event in stream]
        message = stream.get_final_completion().choices[0].message
    assert "content.delta" in kinds
    is_the_answer(message)


def joins_to_the_answer(chunks: list[Any]) -> None:
    """The chunks do, in their order, and say why it ended."""
    deltas = [chunk.choices[0].delta for chunk in chunks]
    reasoning = [delta.reasoning_content for delta in deltas if getattr(delta, "reasoning_content", None)]
    content = [delta.content for delta in deltas if delta.content]
    calls = [call for delta in deltas for call in delta.tool_calls or ()]
    assert ("".join(reasoning), "".join(content)) == (THOUGHT, CONTENT)
    assert (calls[0].function.name, json.loads("".join(call.function.arguments for call in calls))) == CALL
    assert [chunk.choices[0].finish_reason for chunk in chunks][-1] == "tool_calls"


@pytest.mark.parametrize("client", [in_chunks, in_chunks_async, accumulated, whole])
def test_every_client_of_the_sdk_gets_the_answer_and_the_ledger_the_ids(
    client: Any, gateway_url: str, exchanges: list[Exchange], script: list[int]
) -> None:
    """Streamed or not, the message and the ids are those of the script, as the engine sampled them."""
    session = f"{gateway_url}/sessions/streamed-{client.__name__}"

    done = client(f"{session}/v1", script)
    if asyncio.iscoroutine(done):
        asyncio.run(done)

    (exchange,), (row,) = exchanges, listing(f"{session}/trajectories")
    assert exchange.completion == script
    assert row["token_ids"] == exchange.prompt + script
    assert row["logprobs"][-len(script) :] == exchange.logprobs


async def test_the_first_words_arrive_before_the_engine_has_finished(
    gateway_url: str, exchanges: list[Exchange], tokenizer: Tokenizer
) -> None:
    """Read from a bare socket: role and thought are there while the engine is still at it."""
    script = completion(tokenizer, seed=1, content="word " * 300, reasoning="Think.")
    reader, writer = await ask(gateway_url, "first-words", {"stream": True, "vllm_xargs": {"script": script}})
    try:
        head = await reader.readuntil(b"\r\n\r\n")
        said = b""
        while b"Think" not in said:
            said += await reader.read(4096)
        finish_reasons = [exchange.finish_reason for exchange in exchanges]
        while b"[DONE]" not in said:
            more = await reader.read(4096)
            assert more, "the stream ended without its end"
            said += more
    finally:
        writer.close()

    assert b"200 OK" in head
    assert b"text/event-stream" in head
    assert b'"role":"assistant"' in said.partition(b"Think")[0]
    assert finish_reasons == [None]
    assert exchanges[0].completion == script


async def ask(
    gateway_url: str, session: str, fields: dict[str, Any]
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Send a request on a socket of its own."""
    messages = [{"role": "user", "content": "Tell me everything."}]
    body = json.dumps({"model": MODEL, "messages": messages, "max_tokens": 3900, **fields}).encode()
    address = urlsplit(gateway_url)
    reader, writer = await asyncio.open_connection(address.hostname, address.port)
    head = f"POST /sessions/{session}/v1/chat/completions HTTP/1.1\r\nHost: {address.netloc}\r\nX-Request-Id: {session}\r\n"
    writer.write(f"{head}Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
    await writer.drain()
    return reader, writer


def sampled(exchanges: list[Exchange]) -> dict[str, int]:
    """How many ids have left the engine, for whom."""
    return {exchange.request_id: len(exchange.completion) for exchange in exchanges}


async def vanish(
    gateway_url: str, session: str, moment: tuple[float, int], exchanges: list[Exchange], *, stream: bool
) -> None:
    """A client that asks for a long answer and is gone after some seconds and, however slow the engine, some ids."""
    after_s, ids = moment
    _, writer = await ask(gateway_url, session, {"stream": stream, "ignore_eos": True})
    await asyncio.sleep(after_s)
    async with asyncio.timeout(120):
        while sampled(exchanges).get(session, 0) < ids:
            await asyncio.sleep(0.05)
    writer.transport.abort()


async def test_64_clients_that_vanish_leave_an_engine_that_does_nothing(
    gateway: Gateway, vllm: str, exchanges: list[Exchange]
) -> None:
    """Half of them streaming, each at its moment: nothing runs or is held, and what was sampled is kept, aborted."""
    url, chance = gateway.url, random.Random(7)
    descriptors = gateway.descriptors()
    names = [f"vanished-{number}" for number in range(64)]
    moments = [(chance.uniform(0, 8), chance.choice((0, 1, 2 * IN_TRANSIT))) for _ in names]
    clients = [
        vanish(url, name, moment, exchanges, stream=bool(nth % 2))
        for nth, (name, moment) in enumerate(zip(names, moments, strict=True))
    ]
    await asyncio.gather(*clients)

    await asyncio.to_thread(until, lambda: running(vllm) == 0, within_s=5)
    await asyncio.to_thread(until, lambda: gauge(url, "gateway_turns_in_flight") == 0, within_s=5)
    await asyncio.to_thread(until, lambda: gateway.descriptors() <= descriptors, within_s=10)
    counts = sampled(exchanges)
    for name in names:
        turns = await asyncio.to_thread(turns_so_far, f"{url}/sessions/{name}")
        assert [turn["status"] for turn in turns] in ([], ["aborted"])
        assert turns or counts.get(name, 0) <= IN_TRANSIT
        assert all(turn["completion_tokens"] <= counts[name] for turn in turns)
    assert sum(count > IN_TRANSIT for count in counts.values()) > 5
