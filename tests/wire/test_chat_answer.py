"""OpenAI's chat completions: what goes out, answers and errors."""

from pathlib import Path
from typing import Any

import orjson
import pytest
from openai.types.chat import ChatCompletion

from gateway import errors
from gateway.core.turn import Turn
from gateway.core.types import FinishReason, Message, ToolCall, TurnRequest
from gateway.wire import chat
from gateway.wire.chat_answer import encode, encode_error
from tests.wire.turns import completion, text_of, turn

GOLDEN = Path(__file__).parent / "golden" / "chat"


def said(content: str, reasoning: str | None = None, *, calls: tuple[ToolCall, ...] = (), **fields: Any) -> Turn:
    """A recorded turn with this answer."""
    return turn("t1", answer=Message("assistant", content, reasoning=reasoning, tool_calls=calls), **fields)


CALLS = (ToolCall("call_1", "look", '{"a": 1}', own_id="functions.look:0"), ToolCall("call_2", "go", ""))
CUT, LOOPED = (completion(7, 8, finish=reason) for reason in (FinishReason.LENGTH, FinishReason.REPETITION))
ASKED = TurnRequest(messages=(), model="m")
ANSWERS = {
    "content": (said("hi"), ASKED),
    "empty": (said(""), ASKED),
    "no_model": (said("hi"), TurnRequest(messages=())),
    "reasoning": (said("hi", "so"), ASKED),
    "empty_reasoning": (said("hi", ""), ASKED),
    "tool_calls": (said("", calls=CALLS), ASKED),
    "tool_calls_beside_content": (said("see", "so", calls=CALLS[:1]), ASKED),
    "length": (said("h", completion=CUT), ASKED),
    "length_with_a_call": (said("", calls=CALLS[:1], completion=CUT), ASKED),
    "repetition": (said("la la", completion=LOOPED), ASKED),
    "token_ids": (
        said("hi", base=said("x", completion=completion(9))),
        TurnRequest(messages=(), model="m", return_token_ids=True),
    ),
    "text_of_all_kinds": (said('ä \u2028 \U0001f600 "\\ \x00\x1f'), ASKED),
}
answers = pytest.mark.parametrize("name", ANSWERS)


@answers
def test_an_answer_is_written_as_its_golden_file_says(name):
    """Key for key and in this order, since people read it."""
    expected = orjson.loads((GOLDEN / f"{name}.json").read_bytes())
    recorded, request = ANSWERS[name]
    assert orjson.dumps(expected) == encode([recorded], request, created_s=1_700_000_000, text_of=text_of)


def test_every_golden_answer_is_tested():
    """No file is left over."""
    assert sorted(ANSWERS) == sorted(file.stem for file in GOLDEN.glob("*.json"))


@answers
def test_the_openai_sdk_accepts_every_answer(name):
    """Its own types read it, strictly."""
    recorded, request = ANSWERS[name]
    encoded = encode([recorded], request, created_s=1_700_000_000, text_of=text_of)
    parsed = ChatCompletion.model_validate_json(encoded, strict=True)
    choice = parsed.choices[0]
    assert recorded.message.content == (choice.message.content or "")
    assert [call.id for call in recorded.message.tool_calls] == [call.id for call in choice.message.tool_calls or []]
    assert parsed.usage is not None
    assert parsed.usage.total_tokens == parsed.usage.prompt_tokens + parsed.usage.completion_tokens


def test_the_choices_of_one_call_are_in_order_and_share_the_prompt():
    """It is counted once, and each choice has ids and a finish reason of its own."""
    turns = [said("a", completion=CUT), said("b", completion=completion(9)), said("", calls=CALLS[:1])]
    encoded = encode(turns, TurnRequest(messages=(), return_token_ids=True), created_s=0, text_of=text_of)
    answer = ChatCompletion.model_validate_json(encoded, strict=True)
    assert [0, 1, 2] == [choice.index for choice in answer.choices]
    assert ["a", "b", None] == [choice.message.content for choice in answer.choices]
    assert ["length", "stop", "tool_calls"] == [choice.finish_reason for choice in answer.choices]
    assert answer.usage is not None
    assert (2, 5, 7) == (answer.usage.prompt_tokens, answer.usage.completion_tokens, answer.usage.total_tokens)
    raw = orjson.loads(encoded)
    assert [[7, 8], [9], [7, 8]] == [choice["token_ids"] for choice in raw["choices"]]
    assert [1, 2] == raw["prompt_token_ids"]


@answers
def test_an_answer_that_is_replayed_is_the_message_that_was_recorded(name):
    """What goes out comes back, the model's own call ids aside, which stay here."""
    recorded, request = ANSWERS[name]
    answer = orjson.loads(encode([recorded], request, created_s=0, text_of=text_of))["choices"][0]["message"]
    (replayed,) = chat.decode(orjson.dumps({"messages": [answer]})).messages
    assert recorded.message.content == replayed.content
    assert (recorded.message.reasoning or None) == (replayed.reasoning or None)
    assert [(call.id, call.name, call.arguments) for call in recorded.message.tool_calls] == [
        (call.id, call.name, call.arguments) for call in replayed.tool_calls
    ]


@pytest.mark.parametrize(
    ("error", "kind", "code"),
    [
        (errors.BadRequest("m"), "invalid_request_error", "invalid_request"),
        (errors.MultimodalUnsupported("m"), "invalid_request_error", "multimodal_unsupported"),
        (errors.Unauthorized("m"), "authentication_error", "invalid_api_key"),
        (errors.Forbidden("m"), "permission_error", "forbidden"),
        (errors.UnknownSession("m"), "not_found_error", "session_not_found"),
        (errors.SessionExists("m"), "invalid_request_error", "session_exists"),
        (errors.SessionClosed("m"), "invalid_request_error", "session_closed"),
        (errors.TooManyRequests("m"), "rate_limit_error", "session_budget_exhausted"),
        (errors.TooLarge("m"), "invalid_request_error", "request_too_large"),
        (errors.EngineRefused("m", status=400), "invalid_request_error", "engine_refused"),
        (errors.EngineRefused("m", status=404), "not_found_error", "engine_refused"),
        (errors.EngineRefused("m", status=429), "rate_limit_error", "engine_refused"),
        (errors.EngineProtocolError("m"), "server_error", "engine_protocol_error"),
        (errors.EngineUnavailable("m"), "server_error", "engine_unavailable"),
        (errors.RendererError("m"), "server_error", "renderer_error"),
        (errors.LedgerError("m"), "server_error", "ledger_error"),
        (errors.GatewayError("m"), "server_error", "internal_error"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else "",
)
def test_an_error_is_written_in_openais_shape(error, kind, code):
    """The type follows the status; all four keys are always there."""
    expected = {"error": {"message": "m", "type": kind, "param": None, "code": code}}
    assert expected == orjson.loads(encode_error(error))


def test_an_overflow_is_known_by_its_words_as_by_its_code():
    """One SDK looks for the sentence in the message, another for the code there, a third for the code in its field."""
    error = orjson.loads(encode_error(errors.ContextLengthExceeded("64 tokens")))["error"]
    assert (error["type"], error["code"]) == ("invalid_request_error", "context_length_exceeded")
    assert error["message"].startswith("This model's maximum context length is ")
    assert "context_length_exceeded" in error["message"]
    assert "64 tokens" in error["message"]


def test_an_error_names_the_field_at_fault():
    """As the request spelled it."""
    encoded = encode_error(errors.BadRequest("m", param="temperature"))
    assert "temperature" == orjson.loads(encoded)["error"]["param"]
