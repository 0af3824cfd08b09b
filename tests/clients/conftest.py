"""A gateway and a scripted engine here, and an agent of a real package in its own interpreter."""

import asyncio
import json
import os
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import pytest
from aiohttp import ClientSession
from aiohttp.test_utils import TestServer

from gateway.app import create_app
from gateway.render.demo import FOLDER, MODEL_NAME
from gateway.settings import Settings
from gateway.sim import JOURNAL, create_sim
from gateway.sim.journal import Entry
from gateway.sim.keys import ENGINE
from gateway.sim.vocabulary import Vocabulary
from tests.clients.script import ScriptedPolicy

HERE = Path(__file__).parent
SPLIT_RATE = 0.3
LIMIT_S = 60.0

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Played:
    """What became of one agent's session."""

    answers: list[str]
    """What the agent's user saw."""
    turns: list[Json]
    rows: list[Json]
    journal: list[Entry]
    """The engine's, call by call."""

    @property
    def contexts(self) -> list[list[int]]:
        """What the engine read and then sampled, call by call."""
        return [[*cast("list[int]", entry.token_ids), *entry.emitted] for entry in self.journal]


Play = Callable[[str, Sequence[str]], Played]
"""What the fixture `play` gives: runs an agent, by the name of its file, against the answers."""


@pytest.fixture(scope="session")
def interpreter() -> Path:
    """The Python that has the packages; its environment is made when it is not there yet."""
    made = subprocess.run([HERE / "environment.sh"], stdout=subprocess.PIPE, text=True, check=True)
    return Path(made.stdout.splitlines()[-1]) / "bin" / "python"


@pytest.fixture(scope="session")
def play(interpreter: Path, tmp_path_factory: pytest.TempPathFactory) -> Play:
    """Run an agent to its end."""

    def run(agent: str, answers: Sequence[str]) -> Played:
        return asyncio.run(_play(interpreter, agent, answers, tmp_path_factory.mktemp(agent)))

    return run


async def _play(interpreter: Path, agent: str, answers: Sequence[str], home: Path) -> Played:
    sim = create_sim(model=MODEL_NAME, tokenizer=FOLDER)
    policy = ScriptedPolicy(Vocabulary(FOLDER), SPLIT_RATE, answers=iter(answers))
    sim[ENGINE] = replace(sim[ENGINE], policy=policy)
    async with TestServer(sim) as engine:
        app = create_app(Settings(model=MODEL_NAME, engine=(str(engine.make_url("")),)))
        async with TestServer(app) as gateway, ClientSession(gateway.make_url("/")) as http:
            said = await _run(interpreter, agent, str(gateway.make_url(f"/sessions/{agent}/v1")), home)
            turns, rows = [await _listed(http, f"sessions/{agent}/{what}") for what in ("turns", "trajectories")]
    return Played(said, turns, rows, list(sim[JOURNAL].entries))


async def _listed(http: ClientSession, path: str) -> list[Json]:
    """All of a listing, which fits on its first page; nothing when no turn was recorded."""
    async with http.get(path) as response:
        page = await response.json() if response.status != 404 else {"data": [], "next": None}
    assert page["next"] is None
    return cast("list[Json]", page["data"])


async def _run(interpreter: Path, agent: str, url: str, home: Path) -> list[str]:
    """The answers that an agent reports, run at home in a scratch folder, from which it reaches this machine only."""
    (home / "sitecustomize.py").write_text((HERE.parent / "loopback.py").read_text())
    child = await asyncio.create_subprocess_exec(
        *(interpreter, "-m", f"tests.clients.agents.{agent}", url),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        cwd=home,
        env={
            "PATH": os.environ["PATH"],
            "HOME": str(home),
            "PYTHONPATH": os.pathsep.join([str(home), str(HERE.parents[1])]),
            "PYTHONDONTWRITEBYTECODE": "1",
            "LANG": "C.UTF-8",
            "LITELLM_LOCAL_MODEL_COST_MAP": "true",
            "MSWEA_SILENT_STARTUP": "1",
        },
    )
    try:
        out, err = await asyncio.wait_for(child.communicate(), LIMIT_S)
    finally:
        if child.returncode is None:
            child.kill()
    assert child.returncode == 0, err.decode()[-5000:]
    answers: list[str] = json.loads(out.splitlines()[-1])
    return answers
