"""OpenAI's chat completions: the body an agent sends. What it gets is in `chat_answer` and `chat_stream`."""

from collections.abc import Mapping
from typing import get_args

import orjson

from gateway.core.types import JsonObject, Message, Role, Sampling, ToolCall, TurnRequest
from gateway.errors import MultimodalUnsupported
from gateway.wire.chat_answer import encode, encode_error
from gateway.wire.chat_stream import ChatStream
from gateway.wire.constraint import read_constraint
from gateway.wire.fields import Fields, parse_object
from gateway.wire.noise import USUAL, Noise
from gateway.wire.session_id import fault_of

__all__ = ["NAME", "decode", "encode", "encode_error", "read_sampling", "stream"]

NAME = "chat"
stream = ChatStream

_ROLES: Mapping[str, Role] = {role: role for role in get_args(Role)} | {"developer": "system"}
_TEXT_PARTS = ("text", "input_text", "output_text")
_MAX_STOP_STRINGS = 4  # what vLLM takes
_MAX_STOP_CHARS = 1024
_MAX_NAME_CHARS = 512
"""Characters of what is a name: models, tools, ids."""
_MAX_MESSAGES = 16_384
_MAX_TOOLS = 512
"""Renderers take time that grows with the square of it."""
_MAX_TEMPLATE_BYTES = 16_384
_MAX_BIASES = 1024
_MAX_BAD_WORDS = 128  # what vLLM takes
_MAX_ALLOWED_IDS = 65_536
_PATTERN = ("max_pattern_size", "min_pattern_size", "min_count")
_MAX_PATTERN = 4096
"""Engines look for each size of pattern at each token."""
_MAX_CHOICES = 128
_MAX_ALTERNATIVES = 20


def decode(body: bytes, noise: Noise = USUAL) -> TurnRequest:
    """The turn that a chat request asks for, without the `noise` that clients put around it.

    Unknown keys are ignored, as SDKs expect, and of equal keys the last wins. Every other value is of its
    type and within its bounds, or refused.

    Raises:
        BadRequest: the body is not JSON, a value is ill, or something is asked for that is not offered.
    """
    fields = parse_object(body)
    read = [_message(item, noise) for item in fields.objects("messages", _MAX_MESSAGES)]
    messages = tuple(message for message in read if message is not None)
    if not messages:
        what = "one message that is not noise" if read else "one message"
        raise fields.error("messages", f"must hold at least {what}")
    tools = _tools(fields, noise)
    constraint, forced_tools = read_constraint(fields, tools)
    return TurnRequest(
        messages=messages,
        model=fields.text("model", 0, _MAX_NAME_CHARS),
        tools=tools,
        sampling=read_sampling(fields),
        template_kwargs=fields.mapping("chat_template_kwargs", _MAX_TEMPLATE_BYTES),
        priority=fields.integer("priority", -(2**63)),
        cache_salt=fields.text("cache_salt", 1, 1024),
        return_token_ids=fields.flag("return_token_ids"),
        stream=fields.flag("stream"),
        include_usage=fields.nested("stream_options", fields.mapping("stream_options")).flag("include_usage"),
        n=fields.integer("n", 1, _MAX_CHOICES) or 1,
        top_logprobs=_top_logprobs(fields),
        constraint=constraint,
        forced_tools=forced_tools,
        session_hint=_session_hint(fields),
    )


def _session_hint(fields: Fields) -> str | None:
    """The id that a client means as one, or else its cache key, if that can be an id; it was never meant as one."""
    cached = fields.text("prompt_cache_key")
    usable = cached if cached and fault_of(cached) is None else None
    return fields.text("session_id", 0, _MAX_NAME_CHARS) or usable


def _top_logprobs(fields: Fields) -> int | None:
    """How many alternatives each token of the answer is to show; ``None`` when its logprobs are not asked for."""
    most = fields.integer("top_logprobs", 0, _MAX_ALTERNATIVES) or 0
    if fields.flag("logprobs"):
        return most
    if most:
        raise fields.error("top_logprobs", "needs logprobs to be true")
    return None


def _tools(fields: Fields, noise: Noise) -> tuple[JsonObject, ...]:
    """The offered tools; none with ``tool_choice: none``, which is how a template hides them from the model."""
    tools = fields.objects("tools", _MAX_TOOLS)
    for i, tool in enumerate(tools):
        named = tool.text("type") == "function"
        function = tool.nested("function", tool.raw("function")) if named else tool
        if not named or not function.text("name", 0, _MAX_NAME_CHARS):
            raise fields.error(f"tools[{i}]", "must be a function with a name")
        function.text("description")
        function.mapping("parameters")
    return () if fields.raw("tool_choice") == "none" else tuple(noise.tool(tool.whole()) for tool in tools)


def read_sampling(fields: Fields) -> Sampling:
    """The sampling parameters, by the names that a chat request has for them."""
    newer, older = fields.integer("max_completion_tokens", 1), fields.integer("max_tokens", 1)
    stop = fields.raw("stop")
    stops = [stop] if isinstance(stop, str) else fields.items("stop")
    if len(stops) > _MAX_STOP_STRINGS or not all(isinstance(text, str) and text for text in stops):
        raise fields.error("stop", f"must be a non-empty string or up to {_MAX_STOP_STRINGS} of them")
    if any(len(str(text)) > _MAX_STOP_CHARS for text in stops):
        raise fields.error("stop", f"must have no more than {_MAX_STOP_CHARS} characters")
    if fields.items("stop_token_ids"):
        raise fields.error("stop_token_ids", "are the renderer's to say: send stop strings")
    most, least = newer or older, fields.integer("min_tokens", 0)
    if most and least and least > most:
        raise fields.error("min_tokens", f"must not be above the limit of {most} tokens")
    return Sampling(
        max_tokens=most,
        min_tokens=least,
        temperature=fields.number("temperature", 0, 100),
        top_p=fields.number("top_p", 0, 1),
        top_k=fields.integer("top_k", -1),
        min_p=fields.number("min_p", 0, 1),
        presence_penalty=fields.number("presence_penalty", -2, 2),
        frequency_penalty=fields.number("frequency_penalty", -2, 2),
        repetition_penalty=fields.number("repetition_penalty", 0, 100),
        seed=fields.integer("seed", -(2**63)),
        stop=tuple(str(text) for text in stops),
        include_stop_str_in_output=fields.choice("include_stop_str_in_output"),
        ignore_eos=fields.choice("ignore_eos"),
        logit_bias=_logit_bias(fields),
        bad_words=_bad_words(fields),
        allowed_token_ids=_allowed_token_ids(fields),
        thinking_token_budget=fields.integer("thinking_token_budget", -1),
        repetition_detection=_repetition_detection(fields),
        extra_args=fields.mapping("vllm_xargs") or None,
    )


def _logit_bias(fields: Fields) -> dict[str, float] | None:
    given = fields.mapping("logit_bias")
    if len(given) > _MAX_BIASES or not all(_is_token_id(token) for token in given):
        raise fields.error("logit_bias", f"must map up to {_MAX_BIASES} token ids to numbers")
    bias = Fields(given, "logit_bias.")
    values = {token: bias.number(token, -100, 100) for token in given}
    return {token: value for token, value in values.items() if value is not None} or None


def _bad_words(fields: Fields) -> tuple[str, ...]:
    words = fields.items("bad_words")
    if len(words) > _MAX_BAD_WORDS or not all(
        isinstance(word, str) and 0 < len(word) <= _MAX_STOP_CHARS for word in words
    ):
        what = f"must be up to {_MAX_BAD_WORDS} non-empty strings of at most {_MAX_STOP_CHARS} characters"
        raise fields.error("bad_words", what)
    return tuple(str(word) for word in words)


def _allowed_token_ids(fields: Fields) -> tuple[int, ...]:
    allowed = fields.items("allowed_token_ids", _MAX_ALLOWED_IDS)
    ids = tuple(token_id for token_id in allowed if type(token_id) is int and 0 <= token_id < 1 << 32)
    if len(ids) != len(allowed) or (not ids and fields.raw("allowed_token_ids") is not None):
        raise fields.error("allowed_token_ids", "must be token ids, at least one")
    return ids


def _repetition_detection(fields: Fields) -> dict[str, int] | None:
    """The sizes of patterns, and how often one in a row is too often; ``None`` where nothing is looked for."""
    given = fields.mapping("repetition_detection")
    if unknown := given.keys() - set(_PATTERN):
        raise fields.error("repetition_detection", f"has no {min(unknown)}, but {', '.join(_PATTERN)}")
    pattern = fields.nested("repetition_detection", given)
    most, least, count = (pattern.integer(name, 0, _MAX_PATTERN) or 0 for name in _PATTERN)
    if least > most:
        raise pattern.error("min_pattern_size", f"must not be above max_pattern_size, which is {most}")
    if most and count < 2:
        raise pattern.error("min_count", "must be at least 2")
    return dict(zip(_PATTERN, (most, least, count), strict=True)) if most else None


def _is_token_id(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= 10


def _message(fields: Fields, noise: Noise) -> Message | None:
    """The message, or ``None`` where it is nothing but noise."""
    role = _ROLES.get(fields.text("role") or "")
    if role is None:
        raise fields.error("role", f"must be one of {', '.join(_ROLES)}")
    said = _content(fields)
    content = said if isinstance(said, str) else "".join(said)
    if role == "system":
        everything, content = content, noise.silenced(said)
        if everything and not content:
            return None
    if role != "assistant":
        call_id, name = (fields.text(field, 0, _MAX_NAME_CHARS) for field in ("tool_call_id", "name"))
        if role == "tool" and call_id is None:
            raise fields.error("tool_call_id", "must be there: it says which call this answers")
        return Message(role, content, tool_call_id=call_id, name=name)
    reasoning = fields.text("reasoning_content") or fields.text("reasoning") or None
    calls = tuple(_tool_call(call) for call in fields.objects("tool_calls"))
    return Message(role, content, reasoning=reasoning, tool_calls=calls)


def _content(fields: Fields) -> str | list[str]:
    """The text of a message, or of each of its parts."""
    value = fields.raw("content")
    if value is None or isinstance(value, str):
        return value or ""
    texts = []
    for i, item in enumerate(fields.items("content")):
        part = fields.nested(f"content[{i}]", item)
        if part.text("type") not in _TEXT_PARTS:
            raise MultimodalUnsupported(f"{part.path}type: this model takes text parts only", param=f"{part.path}type")
        texts.append(part.text("text") or "")
    return texts


def _tool_call(fields: Fields) -> ToolCall:
    function = fields.nested("function", fields.raw("function"))
    name = function.text("name", 0, _MAX_NAME_CHARS)
    if not name:
        raise function.error("name", "must be a non-empty string")
    parsed = isinstance(function.raw("arguments"), Mapping)  # some clients replay an object
    arguments = orjson.dumps(function.mapping("arguments")).decode() if parsed else function.text("arguments")
    return ToolCall(id=fields.text("id", 0, _MAX_NAME_CHARS) or "", name=name, arguments=arguments or "")
