"""LangChain before a gateway: its chat model with a tool bound, and a loop that runs what it calls.

    python examples/langchain_agent.py http://127.0.0.1:8080/sessions/task-17/v1

Needs ``pip install langchain-openai``, and nothing of the gateway's. The path names the session, and the first call
makes it.
"""

import sys

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from openai import OpenAI


@tool
def temperature(city: str) -> str:
    """The temperature of a city."""
    return f"{city}: {len(city) + 10} °C"


def answer(messages: list[BaseMessage]) -> AIMessage:
    """The model's answer, after as many tool calls as it wants; `messages` grow by all that is said."""
    while True:
        said: AIMessage = model.invoke(messages)
        messages.append(said)
        if not said.tool_calls:
            return said
        messages += [temperature.invoke(call) for call in said.tool_calls]


base_url = sys.argv[1]
name = OpenAI(base_url=base_url, api_key="unused").models.list().data[0].id
model = ChatOpenAI(model=name, base_url=base_url, api_key="unused").bind_tools([temperature])
history: list[BaseMessage] = [SystemMessage("Use the tool.")]
for question in ("How warm is it in Zürich?", "And in Genève?"):
    history.append(HumanMessage(question))
    print(f"{question}\n  {answer(history).content}")
