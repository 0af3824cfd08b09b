"""OpenAI's chat completions: the body an agent sends, and the answer it gets."""

from collections.abc import Mapping
from typing import get_args

import orjson

from gateway.core.turn import Turn
from gateway.core.types import FinishReason, JsonObject, Message, Role, Sampling, ToolCall, TurnRequest
from gateway.errors import GatewayError, MultimodalUnsupported
from gateway.wire.fields import Fields, parse_object

_ROLES: Mapping[str, Role] = {role: role for role in get_args(Role)} | {"developer": "system"}
_ERROR_TYPES = {401: "authentication_error", 403: "permission_error", 404: "not_found_error", 429: "rate_limit_error"}
_TEXT_PARTS = {"text", "input_text", "output_text"}
_MAX_STOP_STRINGS = 4  # what vLLM takes


def decode(body: bytes) -> TurnRequest:
    """The turn that a chat request asks for. Unknown keys are ignored, as SDKs expect.

    Raises:
        BadRequest: the body is not JSON, a value is ill, or something is asked for that is not offered.
    """
    fields = parse_object(body)
    _refuse_what_is_not_offered(fields)
    messages = tuple(_message(item) for item in fields.objects("messages"))
    if not messages:
        raise fields.error("messages", "must hold at least one message")
    return TurnRequest(
        messages=messages,
        model=fields.text("model"),
        tools=_tools(fields),
        sampling=_sampling(fields),
        template_kwargs=fields.mapping("chat_template_kwargs"),
        priority=fields.integer("priority", -(2**63)),
        cache_salt=fields.text("cache_salt", 1, 1024),
        return_token_ids=fields.flag("return_token_ids"),
        session_hint=fields.text("session_id") or fields.text("prompt_cache_key"),
    )


def _refuse_what_is_not_offered(fields: Fields) -> None:
    if fields.flag("stream"):
        raise fields.error("stream", "is not offered yet: send the request with stream set to false")
    if fields.integer("n", 1) not in (None, 1):
        raise fields.error("n", "above 1 is not offered yet: send one request for each choice")
    kind = fields.mapping("response_format").get("type", "text")
    if kind != "text":
        raise fields.error("response_format", f"{kind!s:.40} is not offered yet: only text is")
    if fields.raw("tool_choice") not in (None, "auto", "none"):
        raise fields.error("tool_choice", 'other than "auto" or "none" is not offered yet')


def _tools(fields: Fields) -> tuple[JsonObject, ...]:
    """The offered tools; none with ``tool_choice: none``, which is how a template hides them from the model."""
    tools = fields.objects("tools")
    for i, tool in enumerate(tools):
        if tool.text("type") != "function" or not tool.nested("function", tool.raw("function")).text("name"):
            raise fields.error(f"tools[{i}]", "must be a function with a name")
    return () if fields.raw("tool_choice") == "none" else tuple(tool.whole() for tool in tools)


def _sampling(fields: Fields) -> Sampling:
    newer, older = fields.integer("max_completion_tokens", 1), fields.integer("max_tokens", 1)
    stop = fields.raw("stop")
    stops = [stop] if isinstance(stop, str) else fields.items("stop")
    if len(stops) > _MAX_STOP_STRINGS or not all(isinstance(text, str) and text for text in stops):
        raise fields.error("stop", f"must be a non-empty string or up to {_MAX_STOP_STRINGS} of them")
    return Sampling(
        max_tokens=newer or older,
        min_tokens=fields.integer("min_tokens", 0),
        temperature=fields.number("temperature", 0, 100),
        top_p=fields.number("top_p", 0, 1),
        top_k=fields.integer("top_k", -1),
        min_p=fields.number("min_p", 0, 1),
        presence_penalty=fields.number("presence_penalty", -2, 2),
        frequency_penalty=fields.number("frequency_penalty", -2, 2),
        repetition_penalty=fields.number("repetition_penalty", 0, 100),
        seed=fields.integer("seed", -(2**63)),
        stop=tuple(str(text) for text in stops),
        include_stop_str_in_output=fields.flag("include_stop_str_in_output"),
        ignore_eos=fields.flag("ignore_eos"),
        logit_bias=_logit_bias(fields),
        extra_args=fields.mapping("vllm_xargs") or None,
    )


def _logit_bias(fields: Fields) -> dict[str, float] | None:
    bias = Fields(fields.mapping("logit_bias"), "logit_bias.")
    values = {token: bias.number(token, -100, 100) for token in fields.mapping("logit_bias")}
    if not all(token.isascii() and token.isdecimal() for token in values):
        raise fields.error("logit_bias", "must map token ids to numbers")
    return {token: value for token, value in values.items() if value is not None} or None


def _message(fields: Fields) -> Message:
    role = _ROLES.get(fields.text("role") or "")
    if role is None:
        raise fields.error("role", f"must be one of {', '.join(_ROLES)}")
    content = _content(fields)
    if role != "assistant":
        return Message(role, content, tool_call_id=fields.text("tool_call_id"), name=fields.text("name"))
    reasoning = fields.text("reasoning_content") or fields.text("reasoning") or None
    calls = tuple(_tool_call(call) for call in fields.objects("tool_calls"))
    return Message(role, content, reasoning=reasoning, tool_calls=calls)


def _content(fields: Fields) -> str:
    """The text of a message, its parts joined with nothing between them."""
    value = fields.raw("content")
    if value is None or isinstance(value, str):
        return value or ""
    parts = fields.objects("content")
    for part in parts:
        if part.text("type") not in _TEXT_PARTS:
            raise MultimodalUnsupported(f"{part.path}type: this model takes text parts only", param=f"{part.path}type")
    return "".join(part.text("text") or "" for part in parts)


def _tool_call(fields: Fields) -> ToolCall:
    function = fields.nested("function", fields.raw("function"))
    name = function.text("name")
    if not name:
        raise function.error("name", "must be a non-empty string")
    parsed = isinstance(function.raw("arguments"), Mapping)  # some clients replay an object
    arguments = orjson.dumps(function.mapping("arguments")).decode() if parsed else function.text("arguments")
    return ToolCall(id=fields.text("id") or "", name=name, arguments=arguments or "")


def encode(turn: Turn, request: TurnRequest, *, created_s: int) -> bytes:
    """The answer to a turn. Reasoning goes out under both names that clients read."""
    message: dict[str, object] = {"role": "assistant", "content": turn.message.content}
    if turn.message.reasoning is not None:
        message["reasoning_content"] = message["reasoning"] = turn.message.reasoning
    if turn.message.tool_calls:
        message["content"] = turn.message.content or None
        message["tool_calls"] = [_encoded_call(call) for call in turn.message.tool_calls]
    prompt, sampled = turn.prompt_length, turn.completion.ids
    truncated = turn.completion.finish_reason is FinishReason.LENGTH
    reason = "length" if truncated else "tool_calls" if turn.message.tool_calls else "stop"
    choice: dict[str, object] = {"index": 0, "message": message, "logprobs": None, "finish_reason": reason}
    answer: dict[str, object] = {
        "id": f"chatcmpl-{turn.id}",
        "object": "chat.completion",
        "created": created_s,
        "model": request.model or "",
        "choices": [choice],
        "usage": {"prompt_tokens": prompt, "completion_tokens": len(sampled), "total_tokens": prompt + len(sampled)},
    }
    if request.return_token_ids:
        choice["token_ids"] = sampled.tolist()
        answer["prompt_token_ids"] = turn.prompt_ids().tolist()
    return orjson.dumps(answer)


def _encoded_call(call: ToolCall) -> dict[str, object]:
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}


def encode_error(error: GatewayError) -> bytes:
    """An error in OpenAI's shape."""
    kind = _ERROR_TYPES.get(error.status, "invalid_request_error" if error.status < 500 else "server_error")
    return orjson.dumps({"error": {"message": error.message, "type": kind, "param": error.param, "code": error.code}})
