"""Every route but generate: what an engine tells, and what a trainer or a test tells it."""

from typing import cast

from aiohttp import web

from gateway.sim.keys import CONTROL, ENGINE, FAULTS, JOURNAL, RANKS, RENDER_FAULTS
from gateway.sim.metrics import exposition
from gateway.sim.personality import Json, Refused, error
from gateway.sim.reply import json_response, read_json
from gateway.sim.vocabulary import Vocabulary

_MODES = ("abort", "wait", "keep")


async def alive(_: web.Request) -> web.Response:
    """An empty 200, paused or not."""
    return web.Response()


async def version(request: web.Request) -> web.Response:
    """The release."""
    return json_response({"version": request.app[ENGINE].personality.version})


async def models(request: web.Request) -> web.Response:
    """The one model, in the shape of vLLM's cards."""
    engine = request.app[ENGINE]
    allowed = ("sampling", "logprobs", "view")
    rights = ("create_engine", "sampling", "logprobs", "search_indices", "view", "fine_tuning")
    permission = {
        "id": "modelperm-0",
        "object": "model_permission",
        "created": 0,
        **{f"allow_{right}": right in allowed for right in rights},
        "organization": "*",
        "group": None,
        "is_blocking": False,
    }
    card = {"id": engine.model, "object": "model", "created": 0, "owned_by": "vllm", "root": engine.model}
    card |= {"parent": None, "max_model_len": engine.max_model_len, "permission": [permission]}
    return json_response({"object": "list", "data": [card]})


async def metrics(request: web.Request) -> web.Response:
    """Metrics for Prometheus, per rank."""
    engine = request.app[ENGINE]
    text = exposition(engine.model, request.app[RANKS], says_tokens=engine.personality.since(0, 32))
    return web.Response(body=text, headers={"Content-Type": "text/plain; version=0.0.4; charset=utf-8"})


async def load(request: web.Request) -> web.Response:
    """How many requests are being answered."""
    return json_response({"server_load": request.app[JOURNAL].running})


async def server_info(request: web.Request) -> web.Response:
    """The configuration: of it, how many ranks there are."""
    parallel = {"data_parallel_size": len(request.app[RANKS])}
    if request.query.get("config_format") == "json":
        return json_response({"vllm_config": {"parallel_config": parallel}})
    return json_response(
        {"vllm_config": f"parallel_config=ParallelConfig(data_parallel_size={len(request.app[RANKS])})"}
    )


async def world_size(request: web.Request) -> web.Response:
    """How many ranks there are, of one device each."""
    return json_response({"world_size": len(request.app[RANKS])})


async def tokenize(request: web.Request) -> web.Response:
    """The ids of a text. Messages need a chat template, which a sim has not."""
    engine = request.app[ENGINE]
    body = await read_json(request, engine.personality)
    vocabulary, prompt = _vocabulary(request), body.get("prompt")
    if not isinstance(prompt, str):
        text = "this simulated engine tokenizes a prompt only: messages need a chat template"
        raise Refused(400, error(400, "BadRequestError", text, "prompt"))
    tokens = vocabulary.encode(prompt, special=body.get("add_special_tokens") is not False)
    names = [vocabulary.name_of(token_id) for token_id in tokens] if body.get("return_token_strs") is True else None
    told: Json = {"count": len(tokens), "max_model_len": engine.max_model_len, "tokens": tokens, "token_strs": names}
    return json_response(told)


async def detokenize(request: web.Request) -> web.Response:
    """The text of ids; an id that does not exist says nothing."""
    body = await read_json(request, request.app[ENGINE].personality)
    vocabulary, tokens = _vocabulary(request), body.get("tokens")
    if not isinstance(tokens, list) or not all(isinstance(token_id, int) for token_id in tokens):
        raise request.app[ENGINE].personality.invalid("tokens", "Input should be a valid list", tokens)
    return json_response({"prompt": vocabulary.decode(tokens)})


async def pause(request: web.Request) -> web.Response:
    """Hold new requests, and end, wait for or freeze those under way; answers when that is done."""
    mode, personality = request.query.get("mode", "abort"), request.app[ENGINE].personality
    if mode not in _MODES:
        text = f"1 validation error:\n  Input should be 'abort', 'wait' or 'keep', not {mode!r}"
        raise Refused(400, error(400, "Bad Request", text, "query.mode" if personality.since(0, 32) else None))
    await request.app[CONTROL].pause(mode)
    if request.query.get("clear_cache", "true").lower() != "false":
        _clear_caches(request)
    return json_response({"status": "paused"})


async def resume(request: web.Request) -> web.Response:
    """Go on."""
    request.app[CONTROL].resume()
    return json_response({"status": "resumed"})


async def is_paused(request: web.Request) -> web.Response:
    """Whether new requests are held."""
    return json_response({"is_paused": request.app[CONTROL].paused})


async def reset_prefix_cache(request: web.Request) -> web.Response:
    """Forget every cached block."""
    _clear_caches(request)
    return json_response({"success": True}) if request.app[ENGINE].personality.since(0, 32) else web.Response()


async def abort_requests(request: web.Request) -> web.Response:
    """End requests by the engine's ids, ``generate-tokens-…``; an id that does not run is no error."""
    body = await read_json(request, request.app[ENGINE].personality)
    if "request_ids" not in body:
        raise Refused(400, error(400, "Bad Request", "Missing 'request_ids' in request body"))
    request.app[CONTROL].abort(_strings(body["request_ids"]))
    return web.Response()


async def abort_some_or_all(request: web.Request) -> web.Response:
    """End requests by the engine's ids, or all when none are named; says how many there were."""
    body = await read_json(request, request.app[ENGINE].personality)
    ended = request.app[CONTROL].abort(_strings(body.get("request_ids")) or None)
    return json_response({"status": "aborted", "aborted": ended})


async def update_weight_version(request: web.Request) -> web.Response:
    """Name the weights that sample from now on."""
    personality = request.app[ENGINE].personality
    body = await read_json(request, personality)
    if not isinstance(new := body.get("new_version"), str):
        raise personality.invalid("new_version", "Field required", body)
    request.app[CONTROL].version = new
    return json_response({"success": True, "new_version": new})


async def weight_info(request: web.Request) -> web.Response:
    """The name of the weights that sample now."""
    return json_response({"weight_version": request.app[CONTROL].version})


async def journal(request: web.Request) -> web.Response:
    """The requests to generate so far."""
    return json_response(request.app[JOURNAL].entries)


async def inject(request: web.Request) -> web.Response:
    """Let the next requests to generate go wrong: ``{"kind", "after"?, "times"?}``; with ``"of": "render"``, those."""
    try:
        asked = await request.json()
        renders = asked.pop("of", "generate") == "render"
        request.app[RENDER_FAULTS if renders else FAULTS].inject(**asked)
    except (TypeError, ValueError) as cause:
        raise web.HTTPBadRequest(text=f"not a fault: {cause}") from cause
    return web.Response()


async def clear(request: web.Request) -> web.Response:
    """Forget the journal, or the faults to come."""
    if request.match_info["what"] == "journal":
        request.app[JOURNAL].entries.clear()
    else:
        request.app[FAULTS].clear()
        request.app[RENDER_FAULTS].clear()
    return web.Response()


def _vocabulary(request: web.Request) -> Vocabulary:
    policy = request.app[ENGINE].policy
    if policy is None:
        text = "this simulated engine was started without a tokenizer"
        raise Refused(404, error(404, "NotFoundError", text))
    return policy.vocabulary


def _clear_caches(request: web.Request) -> None:
    for rank in request.app[RANKS]:
        rank.cache.clear()


def _strings(value: object) -> list[str]:
    return [cast("str", item) for item in value] if isinstance(value, list) else []
