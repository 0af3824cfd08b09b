"""What each package makes of a call that fails: the text that it gave, and the name of the error that it raised then.

Run with an option, the number of faults to come: the prompt that does not fit into the context is sent whole and
streamed, and then a short one, streamed, once a fault; each by every package.
"""

import asyncio
import sys
from collections.abc import AsyncIterator, Callable
from typing import Any

import litellm
from agents import Agent as RunnerAgent
from agents import OpenAIChatCompletionsModel, Runner, set_tracing_disabled
from langchain_openai import ChatOpenAI
from openai import AsyncOpenAI, BadRequestError, OpenAIError
from pydantic_ai import Agent
from pydantic_ai.exceptions import ModelAPIError
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

from tests.clients.agents.task import MODEL, QUESTIONS, base_url, report

TOO_LONG = "word " * 50_000
AT: dict[str, Any] = {"base_url": base_url(), "api_key": "unused", "max_retries": 0}

set_tracing_disabled(disabled=True)


async def with_openai(prompt: str, *, stream: bool) -> AsyncIterator[str]:
    """The SDK says the code."""
    asked: dict[str, Any] = {"model": MODEL, "messages": [{"role": "user", "content": prompt}]}
    completions = AsyncOpenAI(**AT).chat.completions
    if not stream:
        yield str(await completions.create(**asked))
        return
    async with completions.stream(**asked) as events:
        async for event in events:
            if event.type == "content.delta":
                yield event.delta


async def with_litellm(prompt: str, *, stream: bool) -> AsyncIterator[str]:
    """mini-swe-agent has the same error, and stops at it."""
    response = await litellm.acompletion(
        model=f"openai/{MODEL}",
        api_base=base_url(),
        api_key="unused",
        num_retries=0,
        messages=[{"role": "user", "content": prompt}],
        stream=stream,
    )
    if not stream:
        yield str(response)
        return
    async for chunk in response:
        yield chunk.choices[0].delta.content or ""


async def with_langchain(prompt: str, *, stream: bool) -> AsyncIterator[str]:
    model = ChatOpenAI(model=MODEL, **AT)
    if not stream:
        yield str(await model.ainvoke(prompt))
        return
    async for chunk in model.astream(prompt):
        yield chunk.content


async def with_openai_agents(prompt: str, *, stream: bool) -> AsyncIterator[str]:
    model = OpenAIChatCompletionsModel(model=MODEL, openai_client=AsyncOpenAI(**AT))
    agent = RunnerAgent(name="agent", model=model)
    if not stream:
        yield str(await Runner.run(agent, prompt))
        return
    async for event in Runner.run_streamed(agent, prompt).stream_events():
        if event.type == "raw_response_event" and event.data.type == "response.output_text.delta":
            yield event.data.delta


async def with_pydantic_ai(prompt: str, *, stream: bool) -> AsyncIterator[str]:
    agent = Agent(OpenAIChatModel(MODEL, provider=OpenAIProvider(openai_client=AsyncOpenAI(**AT))))
    if not stream:
        yield str(await agent.run(prompt))
        return
    async with agent.run_stream(prompt) as result:
        async for text in result.stream_text(delta=True, debounce_by=None):
            yield text


PACKAGES = (with_openai, with_litellm, with_langchain, with_openai_agents, with_pydantic_ai)


async def outcome(ask: Callable[..., AsyncIterator[str]], prompt: str, *, stream: bool) -> list[str]:
    """The text, and the name of the error, with its code where the SDK's own error has no name for it."""
    said, raised = "", "nothing"
    try:
        async for text in ask(prompt, stream=stream):
            said += text
    except (OpenAIError, ModelAPIError) as error:
        raised = str(error.code) if type(error) is BadRequestError else type(error).__name__
    return [said, raised]


async def outcomes(faults: int) -> list[list[str]]:
    """What became of each call, by each package in turn."""
    calls = [(TOO_LONG, False), (TOO_LONG, True), *[(QUESTIONS[0], True)] * faults]
    return [await outcome(ask, prompt, stream=stream) for prompt, stream in calls for ask in PACKAGES]


report(asyncio.run(outcomes(int(sys.argv[2]))))
