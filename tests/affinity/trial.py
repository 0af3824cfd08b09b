"""Sessions before a gateway whose engine has four ranks, each with a KV cache of its own: who is served where.

``python -m tests.affinity.trial`` prints a line of figures for each of: sessions that stay, a rank that is drained
meanwhile, sessions that do not fit into the caches, and such as double meanwhile. The first few of these end before the
others come, which can be admitted by their length therefore; all are in the figures. Exit code 1 when one of them is
not as it must be. The last lines are for contrast: both without admission, and growing ones that all come at once, when
it is not known yet how long sessions become.
"""

import argparse
import asyncio
import sys
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from random import Random

import aiohttp
import structlog
from aiohttp.test_utils import TestClient

from gateway.app import create_app
from gateway.render.demo import FOLDER, MODEL_NAME
from gateway.settings import Settings
from gateway.sim import create_sim
from gateway.sim.vocabulary import Vocabulary
from tests.affinity.figures import BLOCK_TOKENS, DRAINED, Figures, figures_of
from tests.edge.house import House, Json, serving, user

RANKS = 4
_ANSWER = "Here is what I can say about it, <{0}>: it is settled now, and needs no further work of anybody."
_ENDLESS = 1 << 40
_ON_THE_WAY_S = 0.05
"""What was leased before a rank was drained has come to it by then."""
_WORDS = [
    "letter",
    "lighthouse",
    "geese",
    "bridge",
    "bread",
    "tide",
    "comet",
    "river",
    "stone",
    "lamp",
    "winter",
    "garden",
    "copper",
    "sail",
]


@dataclass(frozen=True, slots=True)
class Plan:
    """How much is asked of the gateway, and of the ranks' caches."""

    sessions: int
    turns: int
    drains: bool = False
    """Whether a rank is drained when half of the turns have been taken."""
    opening_words: int = 60
    """In the first message of a session; every further one has `message_words`."""
    message_words: int = 20
    resident_times: float | None = None
    """How many times the ranks' caches all sessions would fill at their ends; ``None``: they fit."""
    resident_share: float | None = None
    """The setting of this name."""
    forerunners: int = 0
    """So many of the sessions have ended before the others come."""
    token_delay_s: float = 0.001
    think_s: float = 0.05
    """How long agents do other things between two turns, at most."""
    seed: int = 0


@asynccontextmanager
async def opened(plan: Plan) -> AsyncIterator[tuple[House, str]]:
    """A gateway, its engine, and where that is."""
    blocks = 1 << 24
    if plan.resident_times is not None:
        blocks = int(plan.sessions * _final_tokens(plan) / plan.resident_times / RANKS / BLOCK_TOKENS)
    async with AsyncExitStack() as stack:
        sim = create_sim(
            model=MODEL_NAME,
            tokenizer=FOLDER,
            ranks=RANKS,
            block_size=BLOCK_TOKENS,
            cache_blocks=blocks,
            token_delay_s=plan.token_delay_s,
            logprobs_mode="processed_logprobs",
            journal_size=_ENDLESS,
        )
        engine = await stack.enter_async_context(serving(sim))
        url = str(engine.make_url("")).rstrip("/")
        share: Json = {} if plan.resident_share is None else {"resident_share": plan.resident_share}
        settings = Settings(model=MODEL_NAME, engine=(f"{url}#dp={RANKS}",), health_interval_s=0.5, **share)
        gateway = await stack.enter_async_context(serving(create_app(settings)))
        client = TestClient(gateway, connector=aiohttp.TCPConnector(limit=0))
        yield House(await stack.enter_async_context(client), sim), url


def _final_tokens(plan: Plan) -> int:
    """About how long the context of a session is at its end; `_said` and the template add a little to what users say."""
    vocabulary = Vocabulary(FOLDER)
    opening = len(vocabulary.encode(_said(Random("0"), plan.opening_words)))
    further = len(vocabulary.encode(_said(Random("0"), plan.message_words) + _ANSWER)) + 10
    return opening + 10 + further * (plan.turns - 1) + len(vocabulary.encode(_ANSWER))


def _said(random: Random, words: int) -> str:
    return " ".join(random.choice(_WORDS) for _ in range(words))


class Crowd:
    """The agents, whose calls are named by their session and turn."""

    def __init__(self, house: House, engine: str, plan: Plan) -> None:
        self.house, self._engine, self._plan = house, engine, plan
        self._vocabulary = Vocabulary(FOLDER)
        self.taken = 0
        self.failed: list[str] = []
        self.drained_at: int | None = None
        """How many calls the engine had been asked when a rank was drained."""

    async def session(self, number: int) -> None:
        """All turns of one session, and its end."""
        random, session = Random(f"{self._plan.seed} {number}"), f"s{number}"
        messages = [user(f"Session {number}. {_said(random, self._plan.opening_words)}")]
        for turn in range(self._plan.turns):
            answer = f"{_ANSWER.format(f'{number} {turn}')}<|im_end|>"
            script = self._vocabulary.encode(answer)
            asked = await self.house.ask(session, messages, script, headers={"x-request-id": f"{number}.{turn}"})
            if asked.status != 200:
                self.failed.append(f"{session} turn {turn}: {asked.body}")
                break
            self.taken += 1
            messages += [asked.message, user(_said(random, self._plan.message_words))]
            await asyncio.sleep(random.random() * self._plan.think_s)
        await self.house.send("POST", f"/sessions/{session}/finish", reward=1.0)

    async def drain(self) -> None:
        """Take a rank out of service when half of all is done."""
        while self.taken < self._plan.sessions * self._plan.turns / 2 and not self.failed:
            await asyncio.sleep(0.01)
        answer = await self.house.send("POST", "/admin/engines", url=self._engine, rank=DRAINED, draining=True)
        await asyncio.sleep(_ON_THE_WAY_S)
        self.drained_at = len(self.house.journal)
        if answer.status != 200:
            self.failed.append(f"drain: {answer.status} {answer.body}")


async def measured(plan: Plan) -> Figures:
    """Let the sessions come, and see where they were served."""
    began_s = time.monotonic()
    with structlog.testing.capture_logs():
        async with opened(plan) as (house, engine):
            crowd = Crowd(house, engine, plan)
            async with asyncio.TaskGroup() as group:
                for number in range(plan.forerunners):
                    group.create_task(crowd.session(number))
            async with asyncio.TaskGroup() as group:
                for number in range(plan.forerunners, plan.sessions):
                    group.create_task(crowd.session(number))
                if plan.drains:
                    group.create_task(crowd.drain())
            figures = figures_of(house.journal, crowd.drained_at)
            if plan.drains:
                figures.counted_moves = await house.metric("gateway_session_moves_total", reason="draining")
    figures.failed, figures.took_s = crowd.failed, time.monotonic() - began_s
    return figures


def staying(sessions: int, turns: int, seed: int = 0) -> Plan:
    """Sessions that fit."""
    return Plan(sessions, turns, seed=seed)


def crowded(sessions: int, turns: int, seed: int = 0, *, share: float | None = 0.9) -> Plan:
    """Sessions that fill the caches three times over; nearly all of what each of them holds is there from the start."""
    return Plan(sessions, turns, False, 4000, 3, resident_times=3.0, resident_share=share, seed=seed)


def growing(sessions: int, turns: int, seed: int = 0, *, share: float | None = 0.9) -> Plan:
    """The same, but what a session holds at its end is twice what it began with: one on each rank shows that first."""
    plan = Plan(sessions, turns, False, 800, 5, resident_times=3.0, resident_share=share, seed=seed)
    return replace(plan, forerunners=RANKS)


def faults_of(figures: Figures, plan: Plan) -> list[str]:
    """What is not as it must be."""
    faults = figures.failed[:5]
    if plan.drains:
        if figures.late or set(figures.moves) != {1} or figures.moved_others:
            faults.append("a drained rank got something new, or its sessions did not move once each")
        if figures.counted_moves != figures.homes_drained:
            faults.append("the gateway counts other moves than there were")
    elif figures.home_share < 0.99:
        faults.append("more than one turn of a hundred was served elsewhere than its session")
    if plan.resident_times is None and not plan.drains and figures.prefilled_times > 1.05:
        faults.append("more was prefilled again than may be")
    if plan.resident_times is not None and figures.hit_share < 0.9:
        faults.append("fewer than nine of ten prompt tokens were cached")
    return faults


def main() -> int:
    """Measure as the flags say."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sessions", type=int, default=200)
    parser.add_argument("--turns", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    given = vars(parser.parse_args())
    sessions, turns, seed = given["sessions"], given["turns"], given["seed"]
    few, many = sessions // 5, turns * 3 // 2
    stay = staying(sessions, turns, seed)
    required = {
        "staying": stay,
        "drained": replace(stay, drains=True),
        "admitted": crowded(few, turns, seed),
        "growing": growing(few, many, seed),
    }
    shown = {
        "not_admitted": crowded(few, turns, seed, share=None),
        "growing_not_admitted": growing(few, many, seed, share=None),
        "growing_at_once": replace(growing(few, many, seed), forerunners=0),
    }
    wrong = False
    for name, plan in (required | shown).items():
        figures = asyncio.run(measured(plan))
        print(f"{name}: {figures.line()}", flush=True)
        for fault in faults_of(figures, plan) if name in required else ():
            print(f"{name}: {fault}", file=sys.stderr, flush=True)
            wrong = True
    return int(wrong)


if __name__ == "__main__":
    sys.exit(main())
