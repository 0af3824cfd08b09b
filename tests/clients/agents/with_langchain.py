"""LangChain: a list of its messages, and a model with tools bound to it; the chunks of a stream are added up."""

from functools import reduce
from operator import add

from langchain_core.messages import BaseMessage, HumanMessage, SystemMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI

from tests.clients.agents.task import DESCRIPTION, MODEL, QUESTIONS, SYSTEM, base_url, report, streams, weather

weather_tool = tool(weather.__name__, description=DESCRIPTION)(weather)
model = ChatOpenAI(model=MODEL, base_url=base_url(), api_key="unused", max_retries=0).bind_tools([weather_tool])
messages: list[BaseMessage] = [SystemMessage(SYSTEM)]
answers = []
for question in QUESTIONS:
    messages.append(HumanMessage(question))
    while True:
        answer = reduce(add, model.stream(messages)) if streams() else model.invoke(messages)
        messages.append(answer)
        if not answer.tool_calls:
            break
        messages += [weather_tool.invoke(call) for call in answer.tool_calls]
    answers.append(answer.content)
report(answers)
