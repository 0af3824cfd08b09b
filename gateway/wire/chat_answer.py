"""OpenAI's chat completions: the answer an agent gets, whole, and what else is said in its words."""

from collections.abc import Sequence

import orjson

from gateway.core.turn import Turn
from gateway.core.types import Evidence, FinishReason, ToolCall, TurnRequest
from gateway.errors import ContextLengthExceeded, GatewayError
from gateway.wire.chat_logprobs import encode_logprobs
from gateway.wire.pieces import TextOf

_ERROR_TYPES = {401: "authentication_error", 403: "permission_error", 404: "not_found_error", 429: "rate_limit_error"}


def encode(turns: Sequence[Turn], request: TurnRequest, *, created_s: int, text_of: TextOf) -> bytes:
    """The answer of one call, a choice for each of its turns. They share one prompt, which is counted once."""
    answer: dict[str, object] = {
        "id": f"chatcmpl-{turns[0].id}",
        "object": "chat.completion",
        "created": created_s,
        "model": request.model or "",
        "choices": [_choice(index, turn, request, text_of) for index, turn in enumerate(turns)],
        "usage": usage(turns),
    }
    if request.return_token_ids:
        answer["prompt_token_ids"] = turns[0].prompt_ids().tolist()
    return orjson.dumps(answer)


def _choice(index: int, turn: Turn, request: TurnRequest, text_of: TextOf) -> dict[str, object]:
    """One answer. Reasoning goes out under both names that clients read."""
    message: dict[str, object] = {"role": "assistant", "content": turn.message.content}
    if turn.message.reasoning is not None:
        message["reasoning_content"] = message["reasoning"] = turn.message.reasoning
    if turn.message.tool_calls:
        message["content"] = turn.message.content or None
        message["tool_calls"] = [encoded_call(call, call.arguments) for call in turn.message.tool_calls]
    choice = {"index": index, "message": message, "logprobs": None, "finish_reason": finish_reason(turn)}
    return choice | evidence(turn.completion.evidence, request, text_of)


def evidence(sampled: Evidence, request: TurnRequest, text_of: TextOf) -> dict[str, object]:
    """What a choice says of ids, as far as it is asked for."""
    asked = request.top_logprobs
    logprobs = None if asked is None else encode_logprobs(sampled, asked, text_of)
    ids = {"token_ids": sampled.ids.tolist()} if request.return_token_ids else {}
    return {"logprobs": logprobs, **ids}


def finish_reason(turn: Turn) -> str:
    """Why a choice ended, in OpenAI's words."""
    if turn.completion.finish_reason is FinishReason.LENGTH:
        return "length"
    return "tool_calls" if turn.message.tool_calls else "stop"


def usage(turns: Sequence[Turn]) -> dict[str, int]:
    """What an answer took, in tokens."""
    prompt, sampled = turns[0].prompt_length, sum(len(turn.completion.ids) for turn in turns)
    return {"prompt_tokens": prompt, "completion_tokens": sampled, "total_tokens": prompt + sampled}


def encoded_call(call: ToolCall, arguments: str) -> dict[str, object]:
    """A tool call; in a stream with the first of its arguments only."""
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": arguments}}


def encode_error(error: GatewayError) -> bytes:
    """An error in OpenAI's shape. An overflow of the context says so in OpenAI's words, with its code."""
    message = error.message
    if error.code == ContextLengthExceeded.code:  # some clients read the text only, each for words of its own
        message = f"This model's maximum context length is exceeded ({error.code}): {message}"
    kind = _ERROR_TYPES.get(error.status, "invalid_request_error" if error.status < 500 else "server_error")
    return orjson.dumps({"error": {"message": message, "type": kind, "param": error.param, "code": error.code}})
