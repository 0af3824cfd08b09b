"""One agent's conversation, scripted: what the model says in each turn, and what it is told next."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from openai import OpenAI
from openai.types.chat import ChatCompletion, ChatCompletionMessage
from tokenizers import Tokenizer

from tests.vllm.completions import ToolCall, completion

MODEL = "tiny-qwen3"
"""The name by which an agent asks for the model, and under which vLLM serves it."""


@dataclass(frozen=True, slots=True)
class Step:
    """One turn of the model, and the text that comes back: from each tool it called, or else from the user."""

    reply: str
    content: str = ""
    reasoning: str | None = None
    calls: Sequence[ToolCall] = ()


STEPS = (
    Step("12°, drizzle", reasoning="The user asks for Zürich.\nLook it up.", calls=[("weather", {"city": "Zürich"})]),
    Step(
        "exit code 0",
        content="Let me check both.",
        reasoning="Rain, then. Is there a list?",
        calls=[("bash", {"command": "ls -la ~/trip | wc -l"}), ("weather", {"city": "São Paulo", "unit": "°C"})],
    ),
    Step("And what should I wear?", content="Drizzle in Zürich: 12°, 温度 too low.", reasoning="Sum it up."),
    Step("Thanks. Save that.", content="A coat, naïve as it may sound."),
    Step("saved", reasoning="Write a file.", calls=[("bash", {"command": 'echo "a coat" > "list of things.txt"'})]),
    Step("1 list of things.txt", calls=[("bash", {"command": "wc -l *.txt"})]),
    Step("Read it to me.", content="It is saved:\n\n```\na coat\n```", reasoning="All done, so say it."),
    Step("", content="a coat", reasoning="Only what the file says."),
)

OPENING: tuple[dict[str, Any], ...] = (
    {"role": "system", "content": "You are a careful agent."},
    {"role": "user", "content": "How is the weather in Zürich, and what have I packed?"},
)


def tool(name: str, description: str, *required: str, **parameters: dict[str, str]) -> dict[str, Any]:
    """A tool as OpenAI's API declares it."""
    schema = {"type": "object", "properties": parameters, "required": list(required)}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": schema}}


TOOLS = (
    tool("weather", "Weather of a city", "city", city={"type": "string"}, unit={"type": "string"}),
    tool("bash", "Run a command", "command", command={"type": "string"}),
)


def scripts(tokenizer: Tokenizer) -> list[list[int]]:
    """What the model will sample in each turn, never in the tokenizer's own spelling."""
    return [
        completion(tokenizer, seed=seed, content=step.content, reasoning=step.reasoning, calls=step.calls)
        for seed, step in enumerate(STEPS)
    ]


def converse(base_url: str, scripts: Sequence[Sequence[int]]) -> list[ChatCompletion]:
    """Hold the conversation as an agent does, sending back each answer as it was received."""
    messages: list[Any] = list(OPENING)
    answers = []
    with OpenAI(base_url=base_url, api_key="unused", max_retries=0, timeout=60) as client:
        for step, script in zip(STEPS, scripts, strict=True):
            answer = client.chat.completions.create(
                model=MODEL,
                messages=messages,
                tools=list(TOOLS),
                max_tokens=300,
                extra_body={"vllm_xargs": {"script": list(script)}, "return_token_ids": True},
            )
            message = answer.choices[0].message
            messages += [message.model_dump(exclude_none=True), *what_comes_back(step, message)]
            answers.append(answer)
    return answers


def what_comes_back(step: Step, message: ChatCompletionMessage) -> list[dict[str, Any]]:
    """The results of the tools that `message` calls, which are those of `step`; without any, the user's next line."""
    called = [call.function.name for call in message.tool_calls or () if call.type == "function"]
    assert called == [name for name, _ in step.calls]
    results = [{"role": "tool", "tool_call_id": call.id, "content": step.reply} for call in message.tool_calls or ()]
    return results or [{"role": "user", "content": step.reply}]
