"""Agents before a gateway whose engines are killed, cut, stalled and aborted at random: none of them notices.

``python -m tests.chaos.trial --disorders 200`` prints a line of figures; exit code 1 when an agent saw a failure, a row
cannot be verified, or a turn is not, id by id, what its engines said along its cuts.
"""

import argparse
import asyncio
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, MutableMapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import aiohttp
import structlog
from aiohttp.test_utils import TestClient

from bench.load import RecordingStore
from gateway.app import create_app
from gateway.render.demo import FOLDER, MODEL_NAME
from gateway.settings import Settings
from gateway.sim.policy import Policy
from gateway.sim.vocabulary import Vocabulary
from gateway.verify.verdict import verify
from tests.chaos.account import faults_of, said_by
from tests.chaos.crowd import PATIENCE_S, Crowd
from tests.chaos.figures import Figures, Plan
from tests.chaos.fleet import Machine, fleet
from tests.chaos.whereabouts import whereabouts
from tests.edge.house import House, serving

_KINDS = {"kill": 2, "abort": 3, "stall": 2, "error_500": 3, "error_503": 3, "error_event": 3, "cut": 5, "no_finish": 4}
"""What happens, and how often beside the others."""
_LATEST_TOKEN = 60
"""Up to which token of an answer it happens; many answers are shorter."""
_DEAD_S = (0.2, 1.0)
"""How long a killed engine is away."""


class Chaos:
    """What goes wrong with the engines, so often as planned; one of them always lives."""

    def __init__(self, machines: Sequence[Machine], plan: Plan) -> None:
        self._machines, self._plan = machines, plan
        self._random = Random(f"{plan.seed} chaos")
        self._killed = self._aborted = 0

    @property
    def happened(self) -> Counter[str]:
        """What struck calls so far."""
        faults = Counter(entry.fault for machine in self._machines for entry in machine.entries if entry.fault)
        return Counter({**faults, "kill": self._killed, "abort": self._aborted})

    async def rage(self) -> None:
        """Until as much has happened as planned."""
        kinds, weights = list(_KINDS), list(_KINDS.values())
        while self.happened.total() < self._plan.disorders:
            await asyncio.sleep(self._random.random() * 2 * self._plan.rest_s)
            victim = self._random.choice(self._machines)
            match self._random.choices(kinds, weights)[0]:
                case "kill":
                    await self._kill(max(self._machines, key=lambda machine: machine.busy))
                case "abort":
                    self._aborted += victim.abort() > 0
                case kind:
                    victim.inject(kind, self._random.randrange(_LATEST_TOKEN))

    async def _kill(self, victim: Machine) -> None:
        self._killed += victim.busy > 0
        await victim.kill()
        await asyncio.sleep(self._random.uniform(*_DEAD_S))
        await victim.start()


@asynccontextmanager
async def opened(plan: Plan, store: RecordingStore) -> AsyncIterator[tuple[House, list[Machine]]]:
    """A gateway and its engines."""
    async with AsyncExitStack() as stack:
        sim = {
            "model": MODEL_NAME,
            "tokenizer": FOLDER,
            "token_delay_s": plan.token_delay_s,
            "logprobs_mode": "processed_logprobs",
        }
        machines = await stack.enter_async_context(fleet(plan.engines, **sim))
        settings = Settings(
            model=MODEL_NAME,
            engine=tuple(machine.url for machine in machines),
            health_interval_s=0.3,
            engine_stall_s=1.0,
            resume_timeout_s=plan.limit_s,
        )
        gateway = await stack.enter_async_context(serving(create_app(settings, store=store)))
        client = TestClient(gateway, connector=aiohttp.TCPConnector(limit=0))
        yield House(await stack.enter_async_context(client), None), machines


async def endured(plan: Plan) -> Figures:
    """Let it happen, and judge what became of the turns."""
    figures, store = Figures(), RecordingStore()
    with structlog.testing.capture_logs() as logged:
        async with opened(plan, store) as (house, machines):
            chaos, began_s = Chaos(machines, plan), time.monotonic()
            crowd = Crowd(str(house.http.make_url("")).rstrip("/"), plan, figures)
            async with asyncio.TaskGroup() as group:
                agents = [group.create_task(crowd.agent(number)) for number in range(plan.clients)]
                try:
                    async with asyncio.timeout(plan.limit_s):
                        await chaos.rage()
                except TimeoutError:
                    figures.faults.append(f"only {chaos.happened.total()} disorders within {plan.limit_s} s")
                crowd.is_over = True
                _, late = await asyncio.wait(agents, timeout=PATIENCE_S)
                if late:
                    told = "\n  ".join(whereabouts())
                    figures.faults.append(f"{len(late)} agents have no end after {PATIENCE_S} s of quiet:\n  {told}")
                for agent in late:
                    agent.cancel()
            await crowd.close()
            figures.took_s, figures.happened = time.monotonic() - began_s, chaos.happened
            figures.faults += await _judged(house, store, machines, figures)
    figures.faults += [str(line)[:800] for line in logged if line["log_level"] in ("error", "critical")]
    figures.seen = [f"{failure}\n  {_cuts_of(failure.split()[0], logged)}" for failure in figures.seen]
    return figures


def _cuts_of(session: str, logged: Sequence[MutableMapping[str, Any]]) -> str:
    """What befell the answers of a session."""
    cuts = (line for line in logged if line["event"] == "cut" and line["session_id"] == session)
    return ", ".join(f"{cut['reason']} at {cut['position']} on {cut['engine']}: {cut['fate']}" for cut in cuts)


async def _judged(house: House, store: RecordingStore, machines: Sequence[Machine], figures: Figures) -> list[str]:
    said = said_by({machine.url: machine.entries for machine in machines})
    policy, faults = Policy(Vocabulary(FOLDER)), []
    for turn in (turn for turns in store.turns.values() for turn in turns):
        cuts = turn.completion.cuts
        figures.cuts.update(cut.reason for cut in cuts)
        figures.kept += sum(cut.kv == "kept" for cut in cuts)
        figures.cut_turns += bool(cuts)
        figures.turns += turn.status == "complete"
        figures.aborted += turn.status != "complete"
        if turn.status == "complete":
            faults += faults_of(turn, said, policy)
    if figures.turns != figures.answers:
        faults.append(f"{figures.answers} answers were heard, and {figures.turns} turns recorded")
    if mismatch := await _mismatch(house):
        faults.append(mismatch)
    if left := await house.metric("gateway_turns_in_flight"):
        faults.append(f"{left} turns are in flight when all is over")
    return faults


async def _mismatch(house: House) -> str | None:
    """What `gateway verify` finds untrue of all rows."""
    path = "/trajectories?status=all&include=aborted&footer=true"
    answer = await house.call("GET", path, headers={"Accept": "application/x-ndjson"})
    with TemporaryDirectory() as folder:
        file = Path(folder) / "rows.ndjson"
        file.write_text(answer.body)
        verdict = verify(file, strict=True)
    return str(verdict) if verdict.mismatch else None


def main() -> int:
    """Let happen what the flags say."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--disorders", type=int, default=200)
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--engines", type=int, default=3)
    parser.add_argument("--token-delay-s", type=float, default=0.008)
    parser.add_argument("--rest-s", type=float, default=0.1, help="between two disorders, on average")
    parser.add_argument("--seed", type=int, default=0)
    plan = Plan(**vars(parser.parse_args()))
    figures = asyncio.run(endured(plan))
    for fault in [*figures.seen, *figures.faults][:20]:
        print(fault[:2000], file=sys.stderr)
    print(figures.line())
    return int(bool(figures.seen or figures.faults))


if __name__ == "__main__":
    sys.exit(main())
