"""An examination from its beginning to its end: an engine, a gateway, a recorder, the agent."""

import asyncio
import logging
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any

import structlog
from aiohttp import ClientSession, web

from gateway.app import SESSIONS, create_app
from gateway.core.ledger import Ledger
from gateway.core.turn import Turn
from gateway.core.types import TurnRequest
from gateway.doctor.agent import Agent
from gateway.doctor.lines import steps_of
from gateway.doctor.recorder import DIALECTS, Call, Recorder
from gateway.doctor.report import Examination, Report
from gateway.doctor.sim_model import sim_model
from gateway.edge import log
from gateway.edge.sessions import Sessions
from gateway.errors import ConfigError, UnknownSession
from gateway.loopback import served
from gateway.render.demo import FOLDER, MODEL_NAME
from gateway.settings import Settings
from gateway.settings_sources import load
from gateway.sim import create_sim
from gateway.sim.keys import ENGINE
from gateway.wire.noise import Noise

_SESSION = "doctor"
"""All calls of the agent are of one session, so that side calls are seen beside what they belong to."""


@dataclass(frozen=True, slots=True)
class Engine:
    """Whom the agent speaks to."""

    url: str | None = None
    """Of a real vLLM; ``None`` is the simulated one."""
    model: str | None = None
    """Where its tokenizer is found."""
    model_name: str | None = None
    key: str = ""
    turns: int = 4
    """Of the simulated model: how many it takes for each thing that is asked."""
    tools: frozenset[str] = frozenset()
    """Of the simulated model: which tools it calls; empty: those that seem to change nothing."""
    stumbles: bool = False
    """Of the simulated model: whether its second answer holds a call that is cut off."""


def examine(command: Sequence[str], timeout_s: float, engine: Engine) -> Report:
    """Run an agent to its end and say what its harness does to its history.

    Raises:
        ConfigError: a flag is ill, the gateway cannot be made, or there is no such command.
    """
    log.configure_process()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    return asyncio.run(examined(Agent(command, timeout_s), engine))


async def examined(agent: Agent, engine: Engine) -> Report:
    """As `examine`, on a loop that runs, and without a word on how to log."""
    if (engine.url is None) != (engine.model is None):
        raise ConfigError("--engine and --model belong together: a vLLM, and the tokenizer of what it serves")
    sim = None if engine.url else _simulated(engine)
    async with served(sim) if sim else nullcontext(engine.url) as engine_url:
        assert engine_url is not None
        settings = _settings(engine, engine_url)
        app, recorder = create_app(settings), Recorder()
        recorder.attach(app)
        async with served(app) as url:
            model = await _model(url)
            end = await agent.run(f"{url}/sessions/{_SESSION}/v1", model)
    noise = Noise(settings.noise_prefix, settings.noise_key)
    ledgers = _ledgers(app[SESSIONS], recorder.calls)
    steps = steps_of(_taken(recorder.calls, ledgers, noise), settings.matching)
    seen = Examination(agent.command, model, sim is not None, end, recorder.calls, steps, ledgers, engine.tools)
    return Report(seen)


def _simulated(engine: Engine) -> web.Application:
    sim = create_sim(model=MODEL_NAME, tokenizer=FOLDER, logprobs_mode="processed_logprobs")
    policy = sim[ENGINE].policy
    assert policy is not None  # it has a tokenizer
    sim[ENGINE] = replace(sim[ENGINE], policy=sim_model(policy, engine.turns, engine.tools, stumbles=engine.stumbles))
    return sim


def _settings(engine: Engine, url: str) -> Settings:
    flags: dict[str, object] = {"host": "127.0.0.1", "engine_key": engine.key, "engine": (url,)}
    if engine.url is None:
        flags |= {"model": MODEL_NAME, "renderer": "auto"}
    else:
        flags |= {"model": engine.model, "model_name": engine.model_name}
    # Whatever the environment says is of another gateway.
    return load({name: value for name, value in flags.items() if value}, {}).settings


async def _model(url: str) -> str:
    """What the agent calls its model: the first one that the engine serves."""
    async with ClientSession(trust_env=False) as http, http.get(f"{url}/v1/models") as response:
        body: Any = await response.json() if response.ok else {}
    models = body.get("data") or []
    if not models:
        raise ConfigError("--engine does not say what it serves: does it run there, and is --engine-key right?")
    return str(models[0]["id"])


def _ledgers(sessions: Sessions, calls: Sequence[Call]) -> list[Ledger]:
    found = []
    for session_id in dict.fromkeys(call.session_id for call in calls if call.session_id):
        try:
            found.append(sessions.get(session_id).ledger)
        except UnknownSession:  # none of its calls left a turn
            continue
    return found


def _taken(calls: Sequence[Call], ledgers: Sequence[Ledger], noise: Noise) -> list[tuple[TurnRequest, Turn]]:
    """The complete turns in the order in which they were recorded, each with what was asked."""
    asked: dict[str, TurnRequest] = {}
    for call in calls:
        if call.turn_ids and not call.replayed:
            asked |= dict.fromkeys(call.turn_ids, DIALECTS[call.path].decode(call.body, noise))
    turns = [turn for ledger in ledgers for turn in ledger.turns if turn.status == "complete"]
    return [(asked[turn.id], turn) for turn in turns if turn.id in asked]
