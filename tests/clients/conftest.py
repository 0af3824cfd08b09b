"""A gateway and a scripted engine here, and an agent of a real package in its own interpreter."""

import asyncio
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol, cast

import pytest
from aiohttp import ClientSession, web
from aiohttp.test_utils import TestServer

from gateway.app import create_app
from gateway.render.demo import FOLDER, MODEL_NAME
from gateway.settings import Settings
from gateway.sim import FAULTS, JOURNAL, create_sim
from gateway.sim.faults import Fault
from gateway.sim.journal import Entry
from gateway.sim.keys import ENGINE
from gateway.sim.vocabulary import Vocabulary
from tests.clients.child import Child
from tests.clients.script import ScriptedPolicy

HERE = Path(__file__).parent
SPLIT_RATE = 0.3
FAULTY_TOKEN_DELAY_S = 0.02
"""Between the tokens of an answer that will break off, so that what comes before is on its way by then."""

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Played:
    """What became of one agent's session."""

    answers: list[Any]
    """What the agent's user saw."""
    turns: list[Json]
    rows: list[Json]
    content_types: list[str]
    """Of what the gateway answered it, call by call."""
    journal: list[Entry]
    """The engine's, call by call."""

    @property
    def contexts(self) -> list[list[int]]:
        """What the engine read and then sampled, call by call."""
        return [[*cast("list[int]", entry.token_ids), *entry.emitted] for entry in self.journal]


class Play(Protocol):
    """What the fixture `play` gives."""

    def __call__(self, agent: str, answers: Sequence[str], *options: str, faults: Sequence[Fault] = ()) -> Played:
        """Run an agent, by the name of its file, against the answers, the first of which have these faults."""
        ...


@pytest.fixture(scope="session")
def interpreter() -> Path:
    """The Python that has the packages; its environment is made when it is not there yet."""
    made = subprocess.run([HERE / "environment.sh"], stdout=subprocess.PIPE, text=True, check=True)
    return Path(made.stdout.splitlines()[-1]) / "bin" / "python"


@pytest.fixture(scope="session")
def play(interpreter: Path, tmp_path_factory: pytest.TempPathFactory) -> Play:
    """Run an agent to its end."""

    def run(agent: str, answers: Sequence[str], *options: str, faults: Sequence[Fault] = ()) -> Played:
        child = Child(interpreter, agent, options, tmp_path_factory.mktemp(agent))
        with pytest.MonkeyPatch.context() as patch:
            if faults:  # or a call of the gateway's own, which proves an engine, would take the fault of the next one
                patch.setattr("gateway.core.health.MOST_FAILURES", len(faults) + 1)
            return asyncio.run(_play(child, answers, faults))

    return run


async def _play(child: Child, answers: Sequence[str], faults: Sequence[Fault]) -> Played:
    sim = create_sim(model=MODEL_NAME, tokenizer=FOLDER, token_delay_s=FAULTY_TOKEN_DELAY_S if faults else 0.0)
    policy = ScriptedPolicy(Vocabulary(FOLDER), SPLIT_RATE, answers=iter(answers))
    sim[ENGINE] = replace(sim[ENGINE], policy=policy)
    async with TestServer(sim) as engine:
        attempts = 0 if faults else 5  # what a client is told of a fault, and not how that is mended
        app = create_app(Settings(model=MODEL_NAME, engine=(str(engine.make_url("")),), resume_attempts=attempts))
        answered: list[str] = []

        async def note(_: web.Request, response: web.StreamResponse) -> None:
            answered.append(response.content_type)

        app.on_response_prepare.append(note)
        async with TestServer(app) as gateway, ClientSession(gateway.make_url("/")) as http:
            sim[FAULTS].extend(faults)
            said = await child.run(str(gateway.make_url(f"/sessions/{child.agent}/v1")))
            content_types = list(answered)
            turns, rows = [await _listed(http, f"sessions/{child.agent}/{what}") for what in ("turns", "trajectories")]
    calls = [entry for entry in sim[JOURNAL].entries if not (entry.request_id or "").startswith("probe-")]
    return Played(said, turns, rows, content_types, calls)


async def _listed(http: ClientSession, path: str) -> list[Json]:
    """All of a listing, which fits on its first page; nothing when no turn was recorded."""
    async with http.get(path) as response:
        page = await response.json() if response.status != 404 else {"data": [], "next": None}
    assert page["next"] is None
    return cast("list[Json]", page["data"])
