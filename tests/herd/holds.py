"""Calls that a pause holds: how long they wait, what they are told meanwhile, and how they are let go."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import structlog
from aiohttp.test_utils import TestClient

from gateway.app import create_app
from gateway.render.demo import MODEL_NAME
from gateway.settings import Settings
from gateway.sim import create_sim
from gateway.sim.keys import RANKS
from tests.edge.house import House, serving, until, user
from tests.edge.streams import stream
from tests.herd.renderer import ReadyRenderer

_JOURNAL = 200
"""Calls that the engine remembers, each of which may be a megabyte."""


@dataclass(frozen=True, slots=True)
class Plan:
    """How many calls are held, and how."""

    calls: int
    prompt_tokens: int
    hold_s: float
    lease_s: float | None = None
    """When the pause ends by itself; ``None``: it is ended after `hold_s`."""
    ranks: int = 4
    rank_prefill_tokens: int = 262_144


@dataclass(slots=True)
class Figures:
    """What became of them."""

    answered: int = 0
    early: int = 0
    """Calls that came to the engine before they were let go."""
    released_s: float = 0.0
    """When the first one came, from the beginning of the pause."""
    took_s: float = 0.0
    """From then until the last one was answered."""
    keep_alives: int = 0
    """The fewest that a stream was sent."""
    most_unread: list[int] = field(default_factory=list)
    """The most prompt tokens that each rank was given before it had said anything to them."""
    failed: list[str] = field(default_factory=list)

    def line(self) -> str:
        """All on one line."""
        return (
            f"answered={self.answered} failed={len(self.failed)} early={self.early} released_s={self.released_s:.2f} "
            f"took_s={self.took_s:.1f} keep_alives_min={self.keep_alives} "
            f"unread_tokens_max={max(self.most_unread, default=0)} by_rank={self.most_unread}"
        )


@asynccontextmanager
async def opened(plan: Plan) -> AsyncIterator[House]:
    """A gateway and its engine, which would not spend its time on hashing prompts."""
    async with AsyncExitStack() as stack:
        sim = create_sim(
            ranks=plan.ranks,
            block_size=4096,
            first_token_delay_s=0.02,
            logprobs_mode="processed_logprobs",
            journal_size=_JOURNAL,
        )
        engine = await stack.enter_async_context(serving(sim))
        url = f"{str(engine.make_url('')).rstrip('/')}#dp={plan.ranks}"
        settings = Settings(
            model=MODEL_NAME,
            engine=(url,),
            keep_alive_s=plan.hold_s / 4,
            rank_prefill_tokens=plan.rank_prefill_tokens,
            queue_turns=plan.calls,
        )
        app = create_app(settings, ReadyRenderer(plan.prompt_tokens))
        gateway = await stack.enter_async_context(serving(app))
        client = TestClient(gateway, connector=aiohttp.TCPConnector(limit=0))
        yield House(await stack.enter_async_context(client), sim)


async def held(plan: Plan) -> Figures:
    """Hold calls, let them go, and see them answered."""
    figures = Figures()
    with structlog.testing.capture_logs():
        async with opened(plan) as house:
            lease: dict[str, Any] = {} if plan.lease_s is None else {"lease_s": plan.lease_s}
            paused = await house.send("POST", "/admin/pause", mode="hold", owner="trainer", **lease)
            assert paused.status == 200, paused.body
            began_s = time.monotonic()
            async with asyncio.TaskGroup() as group:
                for number in range(plan.calls):
                    group.create_task(_call(house, number, figures))
                await _let_go(house, plan, figures, began_s)
            figures.took_s = time.monotonic() - began_s - figures.released_s
            figures.most_unread = [rank.most_unread_tokens for rank in house.sim[RANKS]]
    return figures


async def _let_go(house: House, plan: Plan, figures: Figures, began_s: float) -> None:
    limit_s = 60 + plan.calls / 10
    if plan.lease_s is None:
        await until(lambda: _waiting(house, plan.calls), within_s=limit_s)
        await asyncio.sleep(max(0.0, began_s + plan.hold_s - time.monotonic()))
        figures.early = len(house.journal)
        resumed = await house.send("POST", "/admin/resume", owner="trainer", version="7")
        assert resumed.status == 200, resumed.body
    await until(lambda: house.journal, within_s=limit_s)
    figures.released_s = time.monotonic() - began_s


async def _waiting(house: House, calls: int) -> bool:
    """Whether all calls have come to where they wait."""
    return bool((await house.send("GET", "/admin/pause")).body["waiting"] == calls)


async def _call(house: House, number: int, figures: Figures) -> None:
    """A session of one turn; every second one is streamed."""
    session, messages = f"s{number}", [user(str(number))]
    if number % 2:
        answer = await house.ask(session, messages)
        failure = None if answer.status == 200 else f"{session}: {answer.status} {answer.body}"
    else:
        streamed = await stream(house, session, messages)
        failure = None if streamed.done and streamed.error is None else f"{session}: {streamed.status} {streamed.error}"
        first = not figures.answered or not figures.keep_alives
        figures.keep_alives = streamed.comments if first else min(figures.keep_alives, streamed.comments)
    if failure:
        figures.failed.append(failure)
    figures.answered += not failure
