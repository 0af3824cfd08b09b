"""Streams as OpenAI's own package reads them: sync, async, and with its accumulator."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import openai
import pytest
from openai.types.chat import ChatCompletionChunk

from tests.edge.house import TOOLS, House, OpenHouse, Words
from tests.edge.keeping import KeepingStore

ASKED: Any = {"model": "sim", "messages": [{"role": "user", "content": "Hello?"}]}
OPTIONS: Any = {"tools": TOOLS, "logprobs": True, "stream_options": {"include_usage": True}}


def base_url(house: House, session: str = "s") -> str:
    """Where an agent of that session goes."""
    return str(house.http.make_url(f"/sessions/{session}/v1"))


@pytest.fixture
async def client(house: House) -> AsyncIterator[openai.AsyncOpenAI]:
    """The async SDK, which never tries again."""
    async with openai.AsyncOpenAI(base_url=base_url(house), api_key="k", max_retries=0) as sdk:
        yield sdk


@pytest.fixture
def scripted(words: Words) -> Any:
    """A request for an answer that thinks and calls a tool."""
    script = words.called("What is the weather?", "weather", {"city": "Zürich 🌧"})
    return {**ASKED, **OPTIONS, "extra_body": {"vllm_xargs": {"script": script}}}


def is_called(chunks: list[ChatCompletionChunk], house: House) -> None:
    """The chunks say all that was sampled."""
    deltas = [chunk.choices[0].delta for chunk in chunks if chunk.choices]
    thought = "".join((delta.model_extra or {}).get("reasoning_content") or "" for delta in deltas)
    calls = [call for delta in deltas for call in delta.tool_calls or ()]
    assert deltas[0].role == "assistant"
    assert thought == "What is the weather?"
    assert calls[0].function is not None
    assert (calls[0].index, calls[0].type, calls[0].function.name) == (0, "function", "weather")
    assert "".join(call.function.arguments or "" for call in calls if call.function) == '{"city": "Zürich 🌧"}'
    assert chunks[-2].choices[0].finish_reason == "tool_calls"
    usage = chunks[-1].usage
    assert usage is not None
    assert usage.completion_tokens == len(house.journal[0].emitted)


async def test_the_async_client_reads_a_stream(house: House, client: openai.AsyncOpenAI, scripted: Any) -> None:
    """Thought, call, reason and count."""
    stream = await client.chat.completions.create(**scripted, stream=True)
    is_called([chunk async for chunk in stream], house)


async def test_the_sync_client_reads_a_stream(house: House, scripted: Any) -> None:
    """The same, in a thread of its own."""

    def read() -> list[ChatCompletionChunk]:
        with openai.OpenAI(base_url=base_url(house), api_key="k", max_retries=0) as sdk:
            return list(sdk.chat.completions.create(**scripted, stream=True))

    is_called(await asyncio.to_thread(read), house)


async def test_the_accumulator_makes_the_answer_that_is_not_streamed(
    house: House, client: openai.AsyncOpenAI, scripted: Any
) -> None:
    """Its helper joins the chunks to a completion; what it sends back is recognised as ours."""
    whole = await client.chat.completions.create(**scripted | {"stream_options": openai.omit})
    async with client.chat.completions.stream(**scripted) as stream:
        async for _ in stream:
            pass
        joined = await stream.get_final_completion()

    one, other = whole.choices[0], joined.choices[0]
    assert (one.message.content, one.finish_reason) == (other.message.content or None, other.finish_reason)
    assert one.logprobs is not None
    assert other.logprobs is not None
    assert one.logprobs.content == other.logprobs.content
    assert one.message.tool_calls is not None
    assert other.message.tool_calls is not None
    functions = [message.tool_calls[0].function.model_dump() for message in (one.message, other.message)]
    assert functions[1].items() >= functions[0].items()
    assert whole.usage == joined.usage

    result = {"role": "tool", "tool_call_id": other.message.tool_calls[0].id, "content": "rain"}
    history = [*ASKED["messages"], other.message.model_dump(), result]
    await client.chat.completions.create(**scripted | {"messages": history, "stream_options": openai.omit})
    turns = await house.turns("s")
    assert turns[2]["parent_id"] == joined.id.removeprefix("chatcmpl-") == turns[1]["turn_id"]


async def test_text_of_all_kinds_arrives_as_it_was_sampled(
    house: House, client: openai.AsyncOpenAI, words: Words
) -> None:
    """Characters of several ids come whole."""
    text = 'Zürich 🌧, 東京 👩‍👩‍👧 and \\ " \t done.'
    script = {"vllm_xargs": {"script": words.said(text)}}
    async with client.chat.completions.stream(**ASKED, extra_body=script) as stream:
        told = [event.delta async for event in stream if event.type == "content.delta"]

    assert "".join(told) == text
    assert "�" not in "".join(told)


@pytest.mark.parametrize(
    ("way", "kind", "after"),
    [("create", "error_503", 0), ("create", "no_finish", 9), ("stream", "null_logprob", 9), ("sync", "cut", 9)],
)
async def test_a_failure_raises(open_house: OpenHouse, words: Words, kind: str, after: int, way: str) -> None:
    """Before the first word with its status, then as an error in the stream; nobody takes it for an answer."""
    house = await open_house(sim={"token_delay_s": 0.004})
    house.faults.inject(kind, after=after)
    request = {**ASKED, "extra_body": {"vllm_xargs": {"script": words.said("Hello, you there.")}}}
    with pytest.raises(openai.APIError) as raised:
        await _read(house, way, request)

    assert isinstance(raised.value, openai.APIStatusError) == (after == 0)
    assert raised.value.code == ("engine_protocol_error" if kind == "null_logprob" else "engine_unavailable")
    assert [turn for turn in await house.turns("s") if turn["status"] == "complete"] == []


async def test_an_answer_that_cannot_be_kept_raises(open_house: OpenHouse, words: Words) -> None:
    """Though all of it was said."""
    store = KeepingStore()
    house = await open_house(store=store, sim={"token_delay_s": 0.004})
    store.failure = OSError("disk full")
    request = {**ASKED, "extra_body": {"vllm_xargs": {"script": words.said("Hi.")}}}
    with pytest.raises(openai.APIError, match="unexpectedly"):
        await _read(house, "create", request)


async def _read(house: House, way: str, request: Any) -> None:
    """Read a whole stream in one of the ways that the package has."""
    if way == "sync":

        def read() -> None:
            with openai.OpenAI(base_url=base_url(house), api_key="k", max_retries=0) as sdk:
                for _ in sdk.chat.completions.create(**request, stream=True):
                    pass

        return await asyncio.to_thread(read)
    async with openai.AsyncOpenAI(base_url=base_url(house), api_key="k", max_retries=0) as sdk:
        if way == "stream":
            async with sdk.chat.completions.stream(**request) as stream:
                await stream.until_done()
            return None
        async for _ in await sdk.chat.completions.create(**request, stream=True):
            pass
    return None
