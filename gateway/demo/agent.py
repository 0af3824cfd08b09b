"""The agent of the demo: the OpenAI SDK, three tools, and a loop. It knows nothing of a gateway but the URL."""

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import cycle
from typing import Any, cast

Json = dict[str, Any]

TURNS = 6
"""Turns that each session takes."""
_MAX_TOKENS = 512

QUESTIONS = {
    "travel": (
        "How many people live in Lisbon and Porto together?",
        "And how far apart are they?",
        "Thanks! Anything else?",
    ),
    "kitchen": (
        "What do flour, butter and eggs cost together?",
        "Double the butter, please.",
        "Write the sum down for me.",
    ),
    "archive": ("Which year is the oldest letter from?", "Who wrote it, and to whom?", "Note that for the report."),
}
FORGETFUL = "archive"
"""The session whose agent shortens old tool results to save room, as agents do; its history is another one then."""

_TEXT = {"type": "string"}
_NUMBERS = {"type": "array", "items": {"type": "number"}, "minItems": 2}
TOOLS: list[Json] = [
    {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}
    for name, description, parameters in (
        (
            "look_up",
            "What is known about a thing",
            {"type": "object", "properties": {"thing": _TEXT}, "required": ["thing"]},
        ),
        ("add", "The sum of numbers", {"type": "object", "properties": {"numbers": _NUMBERS}, "required": ["numbers"]}),
        ("note", "Write a line down", {"type": "object", "properties": {"line": _TEXT}, "required": ["line"]}),
    )
]
_DEEDS: Mapping[str, Callable[..., str]] = {
    "look_up": lambda thing: f"{thing}: {len(thing) * 1009} entries, the first from {1800 + len(thing)}",
    "add": lambda numbers: f"{math.fsum(numbers):g}",
    "note": lambda line: f"noted: {line}",
}


@dataclass(frozen=True, slots=True)
class Exchange:
    """One turn as its agent saw it."""

    turn_id: str
    prompt_ids: list[int]
    completion_ids: list[int]
    history: list[Json]
    """All messages of the conversation, the answer included."""


async def converse(base_url: str, name: str) -> list[Exchange]:
    """Ask, run the tools that the model calls, tell it what they said, ask on: `TURNS` turns.

    Raises:
        openai.OpenAIError: a turn was refused or failed.
    """
    from openai import AsyncOpenAI, DefaultAsyncHttpxClient

    messages: list[Json] = [{"role": "system", "content": "You are a careful assistant. Use the tools."}]
    exchanges: list[Exchange] = []
    questions = cycle(QUESTIONS[name])
    http = DefaultAsyncHttpxClient(trust_env=False)  # no proxy stands between a process and itself
    async with AsyncOpenAI(base_url=base_url, api_key="unused", http_client=http) as client:
        model = (await client.models.list()).data[0].id
        while len(exchanges) < TURNS:
            calls = messages[-1].get("tool_calls")
            messages += [_result(call) for call in calls] if calls else [{"role": "user", "content": next(questions)}]
            if name == FORGETFUL and len(exchanges) == TURNS // 2:
                messages = [{**m, "content": "(shortened)"} if m["role"] == "tool" else m for m in messages]
            answer = await client.chat.completions.create(
                model=model,
                messages=cast("Any", messages),
                tools=cast("Any", TOOLS),
                max_tokens=_MAX_TOKENS,
                extra_body={"return_token_ids": True},
            )
            messages = [*messages, answer.choices[0].message.model_dump(exclude_none=True)]
            said: Json = answer.model_dump()
            ids = said["prompt_token_ids"], said["choices"][0]["token_ids"]
            exchanges.append(Exchange(answer.id.removeprefix("chatcmpl-"), *ids, messages))
    return exchanges


def _result(call: Json) -> Json:
    """What a tool says to a call, whatever the model put into it."""
    function = call["function"]
    try:
        text = _DEEDS[function["name"]](**json.loads(function["arguments"]))
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        text = f"error: {type(error).__name__}"
    return {"role": "tool", "tool_call_id": call["id"], "content": text}
