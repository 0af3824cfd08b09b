"""Pydantic AI: runs of one agent, each with the messages of those before."""

from collections.abc import AsyncIterable

from openai import AsyncOpenAI
from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

from tests.clients.agents.task import MODEL, QUESTIONS, SYSTEM, base_url, report, streams, weather

client = AsyncOpenAI(base_url=base_url(), api_key="unused", max_retries=0)
model = OpenAIChatModel(MODEL, provider=OpenAIProvider(openai_client=client))
agent = Agent(model, system_prompt=SYSTEM, tools=[weather])
messages: list[ModelMessage] = []


async def watch(_: object, events: AsyncIterable[object]) -> None:
    """An onlooker, for whom Pydantic AI streams."""
    async for _event in events:
        pass


answers = []
for question in QUESTIONS:
    result = agent.run_sync(question, message_history=messages, event_stream_handler=watch if streams() else None)
    messages = result.all_messages()
    answers.append(result.output)
report(answers)
