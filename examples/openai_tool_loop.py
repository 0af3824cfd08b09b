"""A tool loop with the OpenAI SDK, and the training row that it leaves.

    python examples/openai_tool_loop.py                        # before a simulated engine of its own
    python examples/openai_tool_loop.py http://127.0.0.1:8080  # before a gateway that runs

Needs ``pip install rollout-gateway openai``. The agent is the one in `converse`: nothing in it knows of a gateway.
"""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from openai import OpenAI

from gateway.client import GatewayClient, launch, simulated_engine

QUESTIONS = ("How warm is it in Zürich?", "And in Genève?")
TOOLS: list[Any] = [
    {
        "type": "function",
        "function": {
            "name": "temperature",
            "description": "The temperature of a city",
            "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
        },
    }
]


def temperature(city: str) -> str:
    """What the tool says."""
    return f"{city}: {len(city) + 10} °C"


def converse(client: OpenAI) -> Iterator[str]:
    """Ask, run the tools that the model calls, tell it what they said, and so on; gives what it answers."""
    model = client.models.list().data[0].id
    messages: list[Any] = [{"role": "system", "content": "Use the tool."}]
    for question in QUESTIONS:
        messages.append({"role": "user", "content": question})
        while True:
            said = client.chat.completions.create(model=model, messages=messages, tools=TOOLS).choices[0].message
            messages.append(said.model_dump(exclude_none=True))
            if not said.tool_calls:
                break
            for call in said.tool_calls:
                result = temperature(**json.loads(call.function.arguments)) if call.type == "function" else ""
                messages.append({"role": "tool", "tool_call_id": call.id, "content": result})
        yield f"{question}\n  {said.content}"


@contextmanager
def gateway_at_hand() -> Iterator[GatewayClient]:
    """The gateway that the command line names, or one of our own."""
    if len(sys.argv) > 1:
        with GatewayClient(sys.argv[1]) as gateway:
            yield gateway
    else:
        with simulated_engine() as engine, launch(model="rollout-gateway/demo", engine=[engine]) as gateway:
            yield gateway


with gateway_at_hand() as gateway:
    session = gateway.session(group_id="weather")
    with session.openai() as client:
        for told in converse(client):
            print(told)
    session.finish(reward=1.0)
    for row in session.rows():
        how = " → ".join(turn["how"] for turn in row["turns"])
        print(f"one row: {len(row['token_ids'])} tokens, {sum(row['loss_mask'])} of them sampled and trained ({how})")
