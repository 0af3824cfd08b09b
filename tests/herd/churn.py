"""Engines that come and go under load: what is left of them in the gateway."""

import asyncio
import gc
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from itertools import count
from os import sysconf
from pathlib import Path
from typing import Any

import aiohttp
import structlog
from aiohttp.test_utils import TestClient

from bench.load import held
from gateway.app import create_app
from gateway.render.demo import FOLDER, MODEL_NAME
from gateway.settings import Settings
from tests.chaos.fleet import Machine, fleet
from tests.edge.house import House, serving, until, user

_KINDS = ("Engine", "Rank", "Lease", "EngineCall", "Affinity", "Session", "ClientSession", "TCPConnector")
"""What there may be as many of at the end as at the beginning, by the names of their classes."""
_MOST_GROWTH_BYTES = 8 << 20
"""Of the process, between the first look and the last: an allocator does not give everything back."""
_BY_CHANCE = 12
"""Of anything: what the last engines to go have not let go of yet, and idle connections. A leak is one for each change."""
_SETTLED_WITHIN_S = 20.0


@dataclass(frozen=True, slots=True)
class Plan:
    """How often engines are added and removed."""

    changes: int
    every: int = 200
    """After so many, a look is taken at what is held."""
    clients: int = 8
    stay_s: float = 0.02
    """How long an engine stays: most are removed amid the answers that they have begun. Every fourth stays longer."""
    long_stay_s: float = 0.2


@dataclass(frozen=True, slots=True)
class Look:
    """What is held at a moment when nothing is asked."""

    tasks: int
    sockets: int
    objects: Counter[str]
    series: int
    """Lines of the gateway's metrics."""
    resident_bytes: int

    def __str__(self) -> str:
        kept = " ".join(f"{name}={number}" for name, number in sorted(self.objects.items()))
        return (
            f"tasks={self.tasks} sockets={self.sockets} series={self.series} rss_mb={self.resident_bytes >> 20} {kept}"
        )


@dataclass(slots=True)
class Figures:
    """What happened, and what was left."""

    changes: int = 0
    turns: int = 0
    elsewhere: int = 0
    """Of the turns, those on engines that come and go, to their end."""
    cut: int = 0
    """Those that had to go on on another engine, since theirs was removed."""
    looks: list[Look] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)

    @property
    def faults(self) -> list[str]:
        """What must not be."""
        first, last = self.looks[0], self.looks[-1]
        faults = self.failed[:5]
        if not self.elsewhere or not self.cut:
            faults.append("no turn was on an engine that went, or none that stayed long enough")
        if last.tasks > first.tasks or last.sockets > first.sockets or last.series > first.series:
            faults.append("there are more tasks, sockets or metrics than there were")
        if grown := {
            name: (first.objects[name], now) for name, now in last.objects.items() if now > first.objects[name]
        }:
            faults.append(f"there are more objects than there were: {grown}")
        if last.resident_bytes - first.resident_bytes > _MOST_GROWTH_BYTES:
            faults.append("the process has grown")
        return faults

    def line(self) -> str:
        """All on one line, and one for each look."""
        heads = (
            f"changes={self.changes} turns={self.turns} turns_elsewhere={self.elsewhere} "
            f"turns_cut={self.cut} failed={len(self.failed)}"
        )
        return "\n  ".join([heads, *map(str, self.looks)])


@asynccontextmanager
async def opened() -> AsyncIterator[tuple[House, list[Machine]]]:
    """A gateway with one engine, and two more that it is not told of."""
    async with AsyncExitStack() as stack:
        sim: dict[str, Any] = {"model": MODEL_NAME, "tokenizer": FOLDER, "journal_size": 50, "token_delay_s": 0.001}
        sim["cache_blocks"] = 500  # or what the sims have cached would grow for long
        machines = await stack.enter_async_context(fleet(3, **sim, logprobs_mode="processed_logprobs"))
        settings = Settings(
            model=MODEL_NAME,
            engine=(machines[0].url,),
            health_interval_s=0.2,
            tombstone_ttl_s=0.0,
            retry_window_calls=0,
        )
        gateway = await stack.enter_async_context(serving(create_app(settings)))
        client = TestClient(gateway, connector=aiohttp.TCPConnector(limit=0, force_close=True))
        yield House(await stack.enter_async_context(client), None), machines


async def churned(plan: Plan) -> Figures:
    """Let engines come and go while sessions begin, take turns and are deleted."""
    figures = Figures()
    with structlog.testing.capture_logs() as logged:
        async with opened() as (house, machines):
            while figures.changes < plan.changes and not figures.failed:
                await _some(house, machines, plan, figures)
                figures.failed += [str(line)[:500] for line in logged if line["log_level"] in ("error", "critical")]
                logged.clear()
                figures.looks.append(await _look(house))
    return figures


async def _some(house: House, machines: Sequence[Machine], plan: Plan, figures: Figures) -> None:
    numbers, is_over = count(), asyncio.Event()
    async with asyncio.TaskGroup() as group:
        for _ in range(plan.clients):
            group.create_task(_client(house, machines[0].url, numbers, figures, is_over))
        for change in range(plan.every):
            url = machines[1 + change % 2].url
            added = await house.send("POST", "/admin/engines", url=url)
            await asyncio.sleep(plan.stay_s if change % 4 else plan.long_stay_s)
            removed = await house.call("DELETE", f"/admin/engines?url={url}")
            if {added.status, removed.status} - {200, 201, 204}:
                figures.failed.append(f"{added.status} {added.body} {removed.status} {removed.body}")
                break
            figures.changes += 1
        is_over.set()


async def _client(house: House, home: str, numbers: "count[int]", figures: Figures, is_over: asyncio.Event) -> None:
    while not is_over.is_set():
        session = f"s{next(numbers)}-{figures.changes}"
        messages = [user(f"What is there to say about {session}?")]
        for _ in range(3):
            answer = await house.ask(session, messages)
            if answer.status != 200:
                figures.failed.append(f"{session}: {answer.status} {answer.body}")
                await asyncio.sleep(0.1)
                break
            messages += [answer.message, user("And what else?")]
            figures.turns += 1
        turns = await house.turns(session)
        figures.elsewhere += sum(turn["engine"] != home for turn in turns)
        figures.cut += sum(cut["reason"] == "removed" for turn in turns for cut in turn["cuts"])
        await house.call("DELETE", f"/sessions/{session}")


async def _look(house: House) -> Look:
    async def is_idle() -> bool:
        return await house.metric("gateway_turns_in_flight") == 0

    await until(is_idle, within_s=_SETTLED_WITHIN_S)
    tasks, sockets = held()
    for _ in range(int(_SETTLED_WITHIN_S / 0.5)):  # pooled connections are kept for some seconds
        await asyncio.sleep(0.5)
        before, (tasks, sockets) = sockets, held()
        if sockets >= before:
            break
    gc.collect()
    kinds = Counter(type(one).__name__ for one in gc.get_objects())
    series = len((await house.call("GET", "/metrics")).body.splitlines())
    return Look(tasks, sockets, Counter({name: kinds[name] for name in _KINDS}), series, _resident_bytes())


def _resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * sysconf("SC_PAGE_SIZE")
