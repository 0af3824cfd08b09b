"""The sim as an HTTP server: vLLM's routes, a journal of what came in, and faults on demand."""

from collections import deque
from os import PathLike
from typing import get_args

from aiohttp import web

from gateway.sim import routes
from gateway.sim.chat_template import ChatTemplate
from gateway.sim.control import Control, Pace
from gateway.sim.derender import derender
from gateway.sim.engine import Engine
from gateway.sim.faults import RENDER_FAULT_KINDS, Faults
from gateway.sim.generate import generate
from gateway.sim.journal import Entry, Journal
from gateway.sim.keys import CONTROL, ENGINE, FAULTS, JOURNAL, PACE, RANKS, RENDER_FAULTS, RENDERS
from gateway.sim.logprobs import Mode
from gateway.sim.personality import DERENDER, RENDER, Personality
from gateway.sim.policy import Policy
from gateway.sim.ranks import PrefixCache, Rank, Ranks
from gateway.sim.render import render
from gateway.sim.reply import gatekeeper
from gateway.sim.vocabulary import Vocabulary

__all__ = ["ENGINE", "FAULTS", "JOURNAL", "RENDERS", "RENDER_FAULTS", "Entry", "Faults", "create_sim"]

_END = "<|im_end|>"
_QWEN3_EOS = 151645


def create_sim(
    *,
    model: str = "sim",
    max_model_len: int = 40960,
    version: str = "0.32.0",
    eos_id: int | None = None,
    tokenizer: str | PathLike[str] | None = None,
    split_rate: float = 0.1,
    ranks: int = 1,
    max_running: int = 256,
    max_queued: int | None = None,
    block_size: int = 16,
    cache_blocks: int = 1 << 14,
    first_token_delay_s: float = 0.0,
    prefill_delay_s: float = 0.0,
    token_delay_s: float = 0.0,
    scale_out: bool = True,
    api_key: str | None = None,
    logprobs_mode: Mode = "raw_logprobs",
    journal_size: int = 10_000,
    routed_experts: tuple[int, int] | None = None,
    sampling_mask: bool = False,
) -> web.Application:
    """A simulated engine that answers as vLLM `version` does.

    With `tokenizer`, a folder that holds a ``tokenizer.json``, it thinks, calls tools and answers, with about
    `split_rate` of its tokens split as no tokenizer would; without, it says one fixed thing. If the folder has a chat
    template too, it renders messages, and makes messages of what it said.
    Each of its `ranks` runs `max_running` requests at once and caches `cache_blocks` blocks of `block_size` tokens;
    `max_queued` requests on all ranks together are the most it takes before it answers 503.
    A request takes `first_token_delay_s`, `prefill_delay_s` per prompt token not cached, and `token_delay_s` per token.
    `eos_id` is ``<|im_end|>`` unless given. `scale_out`, `api_key` and `logprobs_mode` are vLLM's flags of these names;
    with `routed_experts`, the layers and the experts that each sends a token to, it says which, as with
    --enable-return-routed-experts, and `sampling_mask` is --return-sampling-mask.

    Run it with ``handler_cancellation=True`` (aiohttp's `TestServer` already does), or a client that leaves is only
    noticed at the next write. In process, `app[JOURNAL]` and `app[FAULTS]` are what the `/sim` routes serve;
    `app[RENDERS]` are the latest requests to render, `app[RENDER_FAULTS]` what will go wrong with the next ones.

    Raises:
        FileNotFoundError: there is no ``tokenizer.json`` in the folder.
        ValueError: `version` is not like 0.32.0, `logprobs_mode` none that the sim has, or there are no ranks, no
            places, no blocks, or nothing in a block.
    """
    _positive(ranks=ranks, max_running=max_running, block_size=block_size, cache_blocks=cache_blocks)
    if logprobs_mode not in get_args(Mode):
        raise ValueError(f"logprobs_mode must be one of {', '.join(get_args(Mode))}, not {logprobs_mode!r}")
    personality = Personality(version, scale_out)
    policy = None if tokenizer is None else Policy(Vocabulary(tokenizer), split_rate)
    if eos_id is None:
        named = policy.vocabulary.id_of(_END) if policy else None
        eos_id = _QWEN3_EOS if named is None else named
    app = web.Application(client_max_size=1 << 26, middlewares=[gatekeeper(personality, api_key)])
    template = None if tokenizer is None else ChatTemplate.of(tokenizer)
    app[ENGINE] = Engine(
        model, max_model_len, personality, eos_id, policy, logprobs_mode, routed_experts, sampling_mask, template
    )
    app[RANKS] = Ranks(Rank(number, max_running, PrefixCache(block_size, cache_blocks)) for number in range(ranks))
    app[RANKS].max_queued = max_queued
    app[JOURNAL], app[FAULTS], app[CONTROL] = Journal(journal_size), Faults(), Control()
    app[RENDERS], app[RENDER_FAULTS] = deque(maxlen=journal_size), Faults(RENDER_FAULT_KINDS)
    app[PACE] = Pace(first_token_delay_s, prefill_delay_s, token_delay_s)
    _route(app)
    return app


def _positive(**knobs: int) -> None:
    for name, number in knobs.items():
        if number < 1:
            raise ValueError(f"{name} must be 1 or more, not {number}")


def _route(app: web.Application) -> None:
    get, post = app.router.add_get, app.router.add_post
    for path, reads in {
        "/health": routes.alive,
        "/ping": routes.alive,
        "/version": routes.version,
        "/v1/models": routes.models,
        "/metrics": routes.metrics,
        "/load": routes.load,
        "/server_info": routes.server_info,
        "/get_world_size": routes.world_size,
        "/is_paused": routes.is_paused,
        "/weight_info": routes.weight_info,
        "/sim/journal": routes.journal,
    }.items():
        get(path, reads)
    for path, acts in {
        "/inference/v1/generate": generate,
        RENDER: render,
        DERENDER: derender,
        "/inference/v1/abort_requests": routes.abort_requests,
        "/abort_requests": routes.abort_some_or_all,
        "/tokenize": routes.tokenize,
        "/detokenize": routes.detokenize,
        "/ping": routes.alive,
        "/pause": routes.pause,
        "/resume": routes.resume,
        "/reset_prefix_cache": routes.reset_prefix_cache,
        "/update_weight_version": routes.update_weight_version,
        "/sim/faults": routes.inject,
    }.items():
        post(path, acts)
    app.router.add_delete("/sim/{what:journal|faults}", routes.clear)
