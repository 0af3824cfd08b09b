"""The litellm SDK: its own message objects are appended; those of a stream are built of its chunks."""

import json
from typing import Any

import litellm

from tests.clients.agents.task import MODEL, QUESTIONS, SYSTEM, TOOLS, base_url, report, streams, weather

messages: list[Any] = [{"role": "system", "content": SYSTEM}]
answers = []
for question in QUESTIONS:
    messages.append({"role": "user", "content": question})
    while True:
        response = litellm.completion(
            model=f"openai/{MODEL}",
            api_base=base_url(),
            api_key="unused",
            messages=messages,
            tools=TOOLS,
            num_retries=0,
            stream=streams(),
        )
        if streams():
            response = litellm.stream_chunk_builder(list(response), messages=messages)
        answer = response.choices[0].message
        messages.append(answer)
        if not answer.tool_calls:
            break
        for call in answer.tool_calls:
            said = weather(**json.loads(call.function.arguments))
            messages.append({"role": "tool", "tool_call_id": call.id, "name": call.function.name, "content": said})
    answers.append(answer.content)
report(answers)
