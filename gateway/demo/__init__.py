"""``gateway demo``: three small agents, one gateway, one engine, and a table of what happened to their tokens.

Everything runs in this process and talks over loopback sockets, as it would between machines. The engine is the
simulated one, unless the URL of a real vLLM is given.
"""

import asyncio
import logging
import os
from contextlib import nullcontext
from typing import Any

import structlog
from aiohttp import ClientSession
from rich.console import Console

from gateway.app import create_app
from gateway.demo.agent import QUESTIONS, Exchange, Json, converse
from gateway.demo.evidence import Line, faults_of, faults_of_engine, lines_of
from gateway.demo.table import show
from gateway.edge import log
from gateway.errors import ConfigError
from gateway.loopback import served
from gateway.render.demo import FOLDER, MODEL_NAME
from gateway.render.registry import load_tokenizer
from gateway.settings_sources import load
from gateway.sim import JOURNAL, create_sim

RANKS = 2
"""Data-parallel ranks of the simulated engine."""
_VARIABLES = {"GATEWAY_ENGINE_KEY", "GATEWAY_ENGINE_KEY_FILE"}
"""What of the environment counts here: nobody else reaches this gateway, and it is to do the same everywhere."""


def run(engine: str | None, model: str | None, model_name: str | None) -> bool:
    """Take the turns and print the table; whether every invariant held.

    Raises:
        ConfigError: the extra ``demo`` is missing, or a flag is missing or ill.
    """
    log.configure_process()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    try:
        import openai
    except ImportError as error:
        raise ConfigError(f"demo needs {error.name}: pip install 'rollout-gateway[demo]'") from None
    if (engine is None) != (model is None):
        raise ConfigError("demo: --engine and --model belong together: a vLLM, and the tokenizer of what it serves")
    model, model_name = (MODEL_NAME, MODEL_NAME) if model is None else (model, model_name)
    lines: list[Line] = []
    try:
        lines, broken = asyncio.run(_demo(engine, model, model_name))
    except* openai.OpenAIError as group:
        broken = [f"an agent gave up: {group.exceptions[0]}"]
    show(Console(), lines, broken)
    return not broken


async def _demo(engine: str | None, model: str, model_name: str | None) -> tuple[list[Line], list[str]]:
    tokenizer: Any = load_tokenizer(model, model_name or model)
    if not getattr(tokenizer, "chat_template", None):
        raise ConfigError(f"--model {model}: its tokenizer has no chat template to compare with")
    sim = None if engine else create_sim(ranks=RANKS, tokenizer=FOLDER, logprobs_mode="processed_logprobs")
    async with served(sim) if sim else nullcontext(engine) as engine_url:
        url = f"{engine_url}#dp={RANKS}" if sim else engine_url
        flags = {"model": model, "model_name": model_name, "engine": (url,)}
        settings = load(flags, {name: os.environ[name] for name in _VARIABLES & os.environ.keys()}).settings
        async with served(create_app(settings)) as url, asyncio.TaskGroup() as group:
            tasks = {name: group.create_task(_session(url, name)) for name in QUESTIONS}
    lines: list[Line] = []
    broken: list[str] = []
    for name, task in tasks.items():
        exchanges, rows = task.result()
        own = lines_of(tokenizer, name, exchanges, rows)
        faults = faults_of(exchanges, rows)
        if sim:
            faults += faults_of_engine(sim[JOURNAL].entries, exchanges, [line.turn["rank"] for line in own])
        lines += own
        broken += [f"{name}: {fault}" for fault in faults]
    return lines, broken


async def _session(url: str, name: str) -> tuple[list[Exchange], list[Json]]:
    """One agent's conversation, and the rows that a trainer gets of it."""
    exchanges = await converse(f"{url}/sessions/{name}/v1", name)
    rows: list[Json] = []
    page: Json = {"next": ""}
    async with ClientSession(raise_for_status=True) as http:
        while page["next"] is not None:
            query = {"cursor": page["next"]} if page["next"] else {}
            async with http.get(f"{url}/sessions/{name}/trajectories", params=query) as response:
                page = await response.json()
            rows += page["data"]
    return exchanges, rows
