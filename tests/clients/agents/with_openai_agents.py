"""The OpenAI Agents SDK over chat completions: its runner, a function tool, and follow-ups on the result."""

from agents import Agent, OpenAIChatCompletionsModel, Runner, function_tool, set_tracing_disabled
from openai import AsyncOpenAI

from tests.clients.agents.task import DESCRIPTION, MODEL, QUESTIONS, SYSTEM, base_url, report, weather

set_tracing_disabled(disabled=True)
client = AsyncOpenAI(base_url=base_url(), api_key="unused", max_retries=0)
agent = Agent(
    name="weather",
    instructions=SYSTEM,
    model=OpenAIChatCompletionsModel(model=MODEL, openai_client=client),
    tools=[function_tool(weather, description_override=DESCRIPTION)],
)
history: list[object] = []
answers = []
for question in QUESTIONS:
    result = Runner.run_sync(agent, [*history, {"role": "user", "content": question}])
    history = result.to_input_list()
    answers.append(result.final_output)
report(answers)
