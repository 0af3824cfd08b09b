"""The route that turns what was generated into a message, as vLLM does with its parsers ``qwen3`` and ``hermes``."""

import json
import re
import time
import uuid
from typing import cast

import orjson
from aiohttp import web

from gateway.sim import rules
from gateway.sim.keys import ENGINE
from gateway.sim.personality import Json, Refused, error, section
from gateway.sim.reply import json_response, read_json
from gateway.sim.vocabulary import Vocabulary

_CALL = re.compile(r"<tool_call>(.*?)</tool_call>", re.DOTALL)
_ENDS = ("<|im_end|>", "<|endoftext|>")
_PARSERS_WANT_IT = (
    "chat_request is required when a tool or reasoning parser is configured because plain detokenization would leak "
    "raw parser markup into content."
)


async def derender(request: web.Request) -> web.Response:
    """A chat completion of a whole answer of generate; a stream's pieces are not taken."""
    engine = request.app[ENGINE]
    body = await read_json(request, engine.personality)
    answer, asked, policy = section(body, "generate_response"), section(body, "chat_request"), engine.policy
    choices = answer.get("choices")
    if not isinstance(choices, list) or body.get("stream") is True:
        raise engine.personality.invalid("generate_response", "Field required", body)
    rules.check_model(body, engine.model, engine.personality)
    if policy is None:
        raise _refused("this simulated engine was started without a tokenizer")
    if not asked:
        raise _refused(_PARSERS_WANT_IT)
    if not all(choice.get("token_ids") for choice in choices):
        raise _refused("choice 0 has empty or null token_ids")
    prompt = cast("int", body.get("prompt_tokens") or 0)
    completion = sum(len(choice["token_ids"]) for choice in choices)
    usage = {"prompt_tokens": prompt, "total_tokens": prompt + completion, "completion_tokens": completion}
    unused = "service_tier system_fingerprint prompt_logprobs prompt_token_ids prompt_text kv_transfer_params"
    return json_response(
        dict.fromkeys([*unused.split(), "ec_transfer_params", "metrics"])
        | {"id": answer.get("request_id") or uuid.uuid4().hex, "object": "chat.completion", "created": int(time.time())}
        | {"model": engine.model, "choices": [_choice(choice, asked, policy.vocabulary) for choice in choices]}
        | {"usage": usage | dict.fromkeys(("prompt_tokens_details", "completion_tokens_details"))}
    )


def _choice(choice: Json, asked: Json, vocabulary: Vocabulary) -> Json:
    thinks = section(asked, "chat_template_kwargs").get("enable_thinking") is not False
    entries = section(choice, "logprobs").get("content")
    return {
        "index": choice.get("index") or 0,
        "message": _message(vocabulary.decode(cast("list[int]", choice["token_ids"])), thinks=thinks),
        "logprobs": {"content": [_named(one, vocabulary) for one in entries]} if isinstance(entries, list) else None,
        # vLLM leaves "stop" here, also above tool calls.
        "finish_reason": choice.get("finish_reason"),
        "stop_reason": choice.get("stop_reason"),
        "token_ids": None,
        "routed_experts": None,
    }


def _message(text: str, *, thinks: bool) -> Json:
    for end in _ENDS:
        text = text.removesuffix(end)
    thought, closed, said = text.partition("</think>")
    reasoning: str | None = thought.removeprefix("<think>")
    if not closed:
        reasoning, said = (reasoning, "") if thinks else (None, text)
    calls = [call for found in _CALL.findall(said) if (call := _call(found))]
    content = _CALL.split(said)[0] if calls else said
    return {
        "role": "assistant",
        "content": content if content.strip() else None,
        **dict.fromkeys(("refusal", "annotations", "audio", "function_call")),
        **({"tool_calls": calls} if calls else {}),
        "reasoning": reasoning if thinks else None,
    }


def _call(text: str) -> Json | None:
    try:
        call = orjson.loads(text)
    except orjson.JSONDecodeError:
        return None
    arguments = json.dumps(call.get("arguments"), ensure_ascii=False)
    function = {"name": call.get("name"), "arguments": arguments}
    return {"id": uuid.uuid4().hex[:16], "type": "function", "function": function}


def _named(entry: Json, vocabulary: Vocabulary) -> Json:
    said = vocabulary.decode([cast("int", entry["token_id"])])
    named: Json = {"token": said, "logprob": entry["logprob"], "bytes": list(said.encode())}
    others = entry.get("top_logprobs")
    return named | {"top_logprobs": [_named(one, vocabulary) for one in others]} if isinstance(others, list) else named


def _refused(text: str) -> Refused:
    return Refused(400, error(400, "BadRequestError", text))
