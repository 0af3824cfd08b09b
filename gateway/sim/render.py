"""The routes that turn messages into token ids: a request that `generate` would take, made of a chat request."""

import uuid
from collections.abc import Mapping
from typing import cast

from aiohttp import web

from gateway.sim import rules
from gateway.sim.chat_template import TemplateFailed
from gateway.sim.engine import Engine
from gateway.sim.faults import Fault
from gateway.sim.keys import ENGINE, RENDER_FAULTS, RENDERS
from gateway.sim.personality import Json, Refused, error, section
from gateway.sim.reply import json_response, read_json

_UNTRUSTED = (
    "Chat template is passed with request, but --trust-request-chat-template is not set. "
    "Refused request with untrusted chat template."
)
_DEFAULTS: Json = {"temperature": 0.6, "top_p": 0.95, "top_k": 20, "min_p": 0.0}
"""Of the model's generation_config.json, in the captures."""
_GRAMMAR = (
    "json regex choice grammar json_object disable_any_whitespace disable_additional_properties whitespace_pattern "
    "structural_tag _backend _backend_was_auto"
)


async def render(request: web.Request) -> web.StreamResponse:
    """The ids of a history, and the sampling parameters that the engine would use."""
    app, engine = request.app, request.app[ENGINE]
    body = await read_json(request, engine.personality)
    app[RENDERS].append(body)
    fault = app[RENDER_FAULTS].popleft() if app[RENDER_FAULTS] else Fault("none")
    fault.strike()
    if fault.kind == "cut" and request.transport is not None:
        request.transport.close()
    rendered = _rendered(body, _ids(body, engine), engine)
    return json_response(rendered | {"token_ids": None} if fault.kind == "no_token_ids" else rendered)


def _ids(body: Json, engine: Engine) -> list[int]:
    messages, template = body.get("messages"), engine.template
    if not isinstance(messages, list):
        raise engine.personality.invalid("messages", "Field required", body)
    rules.check_model(body, engine.model, engine.personality)
    if template is None or engine.policy is None:
        text = "this simulated engine has no chat template: start it with the folder of a tokenizer that has one"
        raise _refused(text)
    if body.get("chat_template") is not None:
        raise _refused(_UNTRUSTED)
    if body.get("continue_final_message") is True:
        raise _refused("this simulated engine goes on with no message")
    if not messages:
        words = "Cannot apply chat template to an empty conversation. Provide at least one message."
        raise _refused(words if engine.personality.since(0, 32) else "list index out of range")
    variables = {**section(body, "chat_template_kwargs"), **_opening(body)}
    tools = cast("list[Json]", body.get("tools") or [])
    try:
        text = template.apply(messages, tools, variables)
    except TemplateFailed as failed:
        raise _refused(str(failed)) from failed
    return _cut(engine.policy.vocabulary.encode(text), body, engine)


def _cut(ids: list[int], body: Json, engine: Engine) -> list[int]:
    most = body.get("truncate_prompt_tokens")
    if not isinstance(most, int | None):
        raise engine.personality.invalid("truncate_prompt_tokens", "Input should be a valid integer", most)
    if most is not None:
        most = engine.max_model_len - 1 if most < 0 else most
        return ids[:most] if body.get("truncation_side") == "right" else ids[max(0, len(ids) - most) :]
    if len(ids) < engine.max_model_len:
        return ids
    limit = engine.max_model_len
    text = f"This model's maximum context length is {limit} tokens. However, your prompt contains at least {limit + 1} "
    text += "input tokens, which exceeds this limit even without any output tokens. Please reduce the length of the "
    text += f"input prompt. (parameter=input_tokens, value={limit + 1})"
    raise Refused(400, error(400, "BadRequestError", text, "input_tokens"))


def _rendered(body: Json, ids: list[int], engine: Engine) -> Json:
    kwargs = {"cohere_format": "cmd4", **section(body, "chat_template_kwargs"), **_opening(body)}
    answer: Json = {
        "request_id": f"chatcmpl-{uuid.uuid4().hex[:16]}",
        "token_ids": ids,
        "token_offsets": None,
        "features": None,
        "content_parts": None,
        "sampling_params": _sampling(body, engine.max_model_len - len(ids), newest=engine.personality.since(0, 32)),
        "reasoning_ended": engine.policy is not None and engine.policy.has_thought(ids),
        "reasoning_parser_kwargs": {"chat_template_kwargs": kwargs},
        "return_token_ids": None,
        "output_mode": "tokens",
        "stream": body.get("stream") is True,
        "stream_options": body.get("stream_options"),
        "cache_salt": body.get("cache_salt"),
        "priority": body.get("priority") or 0,
        "kv_transfer_params": None,
        "ec_transfer_params": None,
    }
    # Unlike the answers of generate, these have had the model in every release.
    return engine.personality.known(answer) | {"model": body.get("model")}


def _opening(body: Json) -> Json:
    return {"add_generation_prompt": body.get("add_generation_prompt") is not False, "continue_final_message": False}


def _sampling(body: Json, room: int, *, newest: bool) -> Json:
    given = {name: body[name] for name in ("presence_penalty", "frequency_penalty") if name in body}
    params: Json = {"presence_penalty": 0.0, "frequency_penalty": 0.0, "repetition_penalty": 1.0} | given
    chosen: Mapping[str, object] = {name: body.get(name, usual) for name, usual in _DEFAULTS.items()}
    params |= {"temperature": 0.0} if chosen["temperature"] == 0 else chosen
    params |= {"seed": body["seed"]} if body.get("seed") is not None else {}
    stop, most = body.get("stop") or [], body.get("max_completion_tokens") or body.get("max_tokens")
    params |= {"stop": stop, "stop_token_ids": [], "max_tokens": most or room}
    params |= {"logprobs": body.get("top_logprobs") or 0} if body.get("logprobs") else {}
    grammar = section(body, "structured_outputs")
    if newest or body.get("tools"):
        params["skip_special_tokens"] = False
    params |= {"output_kind": 2, "skip_clone": True}
    params |= {"output_text_buffer_length": 2} if stop else {}
    if grammar:
        usual = {name: False if name.startswith("disable") else None for name in _GRAMMAR.split()}
        params["structured_outputs"] = {**usual, "_backend_was_auto": False, **grammar}
    params |= {"extra_args": body["vllm_xargs"]} if body.get("vllm_xargs") else {}
    return params | {"bad_words": [], "skip_reading_prefix_cache": False}


def _refused(text: str) -> Refused:
    return Refused(400, error(400, "BadRequestError", text))
