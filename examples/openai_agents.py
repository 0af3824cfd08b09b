"""The OpenAI Agents SDK before a gateway: its chat-completions model, a function tool, a second question.

    python examples/openai_agents.py http://127.0.0.1:8080/sessions/task-17/v1

Needs ``pip install openai-agents``, and nothing of the gateway's. The path names the session; the first call makes it.
"""

import asyncio
import sys

from agents import Agent, OpenAIChatCompletionsModel, Runner, TResponseInputItem, function_tool, set_tracing_disabled
from openai import AsyncOpenAI


@function_tool
def temperature(city: str) -> str:
    """The temperature of a city."""
    return f"{city}: {len(city) + 10} °C"


async def converse(base_url: str) -> None:
    """Ask twice; the second question goes on from what the SDK made of the first."""
    client = AsyncOpenAI(base_url=base_url, api_key="unused")
    name = (await client.models.list()).data[0].id
    model = OpenAIChatCompletionsModel(model=name, openai_client=client)
    agent = Agent(name="weather", instructions="Use the tool.", model=model, tools=[temperature])
    history: list[TResponseInputItem] = []
    for question in ("How warm is it in Zürich?", "And in Genève?"):
        result = await Runner.run(agent, [*history, {"role": "user", "content": question}])
        history = result.to_input_list()
        print(f"{question}\n  {result.final_output}")


set_tracing_disabled(disabled=True)  # traces would go to OpenAI
asyncio.run(converse(sys.argv[1]))
