"""Answers bound by a real vLLM, unscripted: a model of random weights says only what the grammar allows.

The engine runs a reasoning parser and the prompt holds no thought, under which it ignores grammars unless told.
"""

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest
from openai import OpenAI
from tokenizers import Tokenizer

from gateway.core.types import Answer, Completion
from gateway.errors import EngineRefused
from gateway.render.forcing import structured_outputs
from gateway.render.reading import Reading
from gateway.render.registry import load_tokenizer, renderers_for
from gateway.render.translator import Translator
from gateway.wire import chat
from gateway.wire.collector import Collector
from gateway.wire.generate import encode_request
from gateway.wire.sse import SSEDecoder
from tests.recorder import GENERATE
from tests.vllm.conversation import MODEL
from tests.vllm.test_first_light import listing

CALL, CALL_END = 151657, 151658
SCHEMA = {
    "type": "object",
    "properties": {"city": {"enum": ["Paris", "Rome"]}, "days": {"type": "integer", "minimum": 1, "maximum": 9}},
    "required": ["city", "days"],
    "additionalProperties": False,
}
TOOLS = [{"type": "function", "function": {"name": name, "parameters": SCHEMA}} for name in ("weather", "rain")]

Ask = Callable[..., tuple[Completion, Answer]]


@pytest.fixture(scope="module")
def translator(tokenizer_dir: Path) -> Translator:
    """Qwen3's renderer."""
    tokenizer = load_tokenizer(str(tokenizer_dir), "Qwen/Qwen3-8B")
    return renderers_for("auto", tokenizer, None, retention="all", bridgeless_ok=False)[0].get({})


@pytest.fixture
def ask(vllm: str, translator: Translator) -> Ask:
    """Put a chat request to the engine; what it sampled, and the message that the client sees."""

    def ask(**fields: object) -> tuple[Completion, Answer]:
        body = {"messages": [{"role": "user", "content": "What is the weather?"}], "seed": 1, **fields}
        request = chat.decode(json.dumps(body).encode())
        prompt = translator.render(request.messages, request.tools)
        bound = structured_outputs(request, translator.form, translator.tokenizer, opens_thought=False)
        limits: dict[str, Any] = {"max_tokens": request.sampling.max_tokens or 300, "version": (0, 32)}
        sent = encode_request(prompt, request, stop_ids=translator.stop_ids, structured_outputs=bound, **limits)
        completion = sampled(vllm, sent)
        reading = Reading(translator, prompt, request, lambda: "call_1")
        reading.feed(completion.ids)
        return completion, reading.finish().answer

    return ask


def sampled(vllm: str, body: bytes) -> Completion:
    """The completion that the engine streams for `body`."""
    collector, decoder = Collector(), SSEDecoder()
    with urlopen(Request(vllm + GENERATE, body, {"Content-Type": "application/json"}), timeout=60) as answer:
        for payload in decoder.feed(answer.read()):
            collector.feed(payload)
    return collector.completion()


@pytest.fixture(scope="module")
def no_wandering(tokenizer: Tokenizer) -> dict[str, int]:
    """A bias against white space, of which JSON allows so much that a model of random weights never leaves it."""
    pieces = ((token, tokenizer.decode([token])) for token in range(CALL))
    return {str(token): -100 for token, text in pieces if text and not text.strip()}


@pytest.mark.parametrize("seed", range(3))
def test_a_response_format_is_kept(ask: Ask, no_wandering: dict[str, int], seed: int) -> None:
    """The content is JSON of the schema."""
    shape = {"type": "json_schema", "json_schema": {"name": "plan", "schema": SCHEMA}}
    completion, answer = ask(response_format=shape, seed=seed, logit_bias=no_wandering)

    assert completion.finish_reason == "stop"
    assert conforms(json.loads(answer.message.content))


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("choice", ["required", {"type": "function", "function": {"name": "rain"}}])
def test_a_forced_call_is_made(ask: Ask, choice: object, seed: int) -> None:
    """The whole answer is one call of an offered tool with fitting arguments, its markers single tokens."""
    completion, answer = ask(tools=TOOLS, tool_choice=choice, seed=seed)

    assert completion.finish_reason == "stop"
    assert [at for at, token in enumerate(completion.ids) if token in (CALL, CALL_END)] == [0, len(completion.ids) - 2]
    (call,) = answer.message.tool_calls
    assert call.name in (("weather", "rain") if choice == "required" else ("rain",))
    assert conforms(json.loads(call.arguments))
    assert (answer.message.content, answer.flags) == ("", ())


def test_logprobs_are_those_of_what_the_grammar_leaves(ask: Ask) -> None:
    """Where it leaves one token, that token is certain; the model alone would hardly ever say it."""
    bound, _ = ask(tools=TOOLS, tool_choice="required")
    free, _ = ask(tools=TOOLS, vllm_xargs={"script": [CALL]}, max_tokens=1)

    assert bound.ids[0] == free.ids[0] == CALL
    assert bound.logprobs[0] == 0.0
    assert free.logprobs[0] < math.log(0.01)


def test_a_grammar_that_the_engine_refuses_is_the_callers_fault(ask: Ask) -> None:
    """Its words are relayed, as a 400 that is not to be tried again."""
    with pytest.raises(EngineRefused) as caught:
        ask(structured_outputs={"regex": "["})

    assert (caught.value.status, caught.value.retryable) == (400, False)


def conforms(value: dict[str, Any]) -> bool:
    """Whether a value is one of `SCHEMA`."""
    return value.keys() == {"city", "days"} and value["city"] in ("Paris", "Rome") and value["days"] in range(1, 10)


def test_a_forced_call_comes_through_the_gateway_as_a_stream(gateway_url: str) -> None:
    """Its arguments are those of the schema, and the turn says that it was bound."""
    session = f"{gateway_url}/sessions/forced"
    messages: list[Any] = [{"role": "user", "content": "Weather?"}]
    with OpenAI(base_url=f"{session}/v1", api_key="unused", max_retries=0) as client:
        stream = client.chat.completions.create(
            model=MODEL, messages=messages, tools=TOOLS, tool_choice="required", max_tokens=300, stream=True
        )
        calls = [call for chunk in stream for call in chunk.choices[0].delta.tool_calls or ()]
    arguments = json.loads("".join(call.function.arguments for call in calls))
    assert calls[0].function.name in ("weather", "rain")
    assert arguments["city"] in ("Paris", "Rome")
    (turn,) = listing(f"{session}/turns")
    assert "constrained" in turn["flags"]
