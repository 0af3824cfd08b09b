"""The OpenAI SDK: message objects are appended as they came, or as its accumulator made them of a stream."""

import json
from typing import Any

from openai import OpenAI
from openai.types.chat import ChatCompletion

from tests.clients.agents.task import MODEL, QUESTIONS, SYSTEM, TOOLS, base_url, report, streams, weather

client = OpenAI(base_url=base_url(), api_key="unused", max_retries=0)
messages: list[Any] = [{"role": "system", "content": SYSTEM}]
tools: list[Any] = TOOLS


def completion() -> ChatCompletion:
    """The model's answer to the messages so far."""
    if not streams():
        return client.chat.completions.create(model=MODEL, messages=messages, tools=tools)
    with client.chat.completions.stream(model=MODEL, messages=messages, tools=tools) as stream:
        return stream.get_final_completion()


answers = []
for question in QUESTIONS:
    messages.append({"role": "user", "content": question})
    while True:
        answer = completion().choices[0].message
        messages.append(answer)
        if not answer.tool_calls:
            break
        for call in answer.tool_calls:
            assert call.type == "function"
            said = weather(**json.loads(call.function.arguments))
            messages.append({"role": "tool", "tool_call_id": call.id, "content": said})
    answers.append(answer.content)
report(answers)
