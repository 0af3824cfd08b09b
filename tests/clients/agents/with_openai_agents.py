"""The OpenAI Agents SDK over chat completions: its runner, a function tool, and follow-ups on the result."""

import asyncio

from agents import Agent, OpenAIChatCompletionsModel, Runner, function_tool, set_tracing_disabled
from agents.result import RunResultBase
from openai import AsyncOpenAI

from tests.clients.agents.task import DESCRIPTION, MODEL, QUESTIONS, SYSTEM, base_url, report, streams, weather

set_tracing_disabled(disabled=True)
client = AsyncOpenAI(base_url=base_url(), api_key="unused", max_retries=0)
agent = Agent(
    name="weather",
    instructions=SYSTEM,
    model=OpenAIChatCompletionsModel(model=MODEL, openai_client=client),
    tools=[function_tool(weather, description_override=DESCRIPTION)],
)


async def run(asked: list[object]) -> RunResultBase:
    """The agent's run to its answer."""
    if not streams():
        return await Runner.run(agent, asked)
    result = Runner.run_streamed(agent, asked)
    async for _ in result.stream_events():
        pass
    return result


async def answers() -> list[str]:
    """What it says to each question."""
    history: list[object] = []
    said = []
    for question in QUESTIONS:
        result = await run([*history, {"role": "user", "content": question}])
        history = result.to_input_list()
        said.append(result.final_output)
    return said


report(asyncio.run(answers()))
