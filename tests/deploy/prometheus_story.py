"""What happens to a gateway that is scraped: all is well, then one thing after the other is not; and what was seen."""

import asyncio
import os
import signal
import sys
import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp

from tests.deploy.child import Child
from tests.deploy.fleet import LIMIT_S
from tests.deploy.prometheus import Prometheus, configured, prometheus
from tests.deploy.prometheus_agents import (
    Agents,
    cold,
    faithful,
    impatient,
    mistaken,
    repeating,
    rewriting,
    thoughtless,
)

Json = dict[str, Any]
KEY = "a-key-for-the-trainer"
ROOT = Path(__file__).parent.parent.parent
_WELL_S = 12.0
"""How long all is well: longer than any hurried window and ``for``."""
_STOPPED_S, _RUNNING_S = 0.5, 0.4
"""A process that is stopped for so long, again and again, is late by as much; scrapes have a second."""


@dataclass(slots=True)
class Seen:
    """What Prometheus and its agents said, in the order of the story."""

    gateway: str = ""
    """Where the gateway is that all of it happens to, as Prometheus calls it; the second is killed in the end."""
    second: str = ""
    targets: list[Json] = field(default_factory=list)
    well: list[Json] = field(default_factory=list)
    """Alerts that fired while all was well, and went on firing."""
    failures: list[str] = field(default_factory=list)
    """What they saw fail in all."""
    failures_well: list[str] = field(default_factory=list)
    """What agents saw fail while all was well, and a policy was announced in a pause."""
    fired: dict[str, Json] = field(default_factory=dict)
    """By the name of each alert that was waited for, the first that fired; nothing where none did in time."""
    panels: str = ""
    """What ``tools.panels`` printed."""
    panels_status: int = -1
    exposition: str = ""
    took_s: float = 0.0


class Story:
    """Two engines of two ranks each, two gateways, a Prometheus, and what becomes of them."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self._folder, self._stack, self.seen = folder, stack, Seen()
        sim = ("sim", "--port", "0", "--ranks", "2", "--token-delay-s", "0.004")
        self._engines = [self._child(f"engine-{number}", *sim) for number in range(2)]
        urls = [engine.ready() for engine in self._engines]
        serve = ["serve", "--port", "0", "--model", "rollout-gateway/demo", "--admin-key", KEY]
        serve += ["--health-interval-s", "0.5", "--renderer", "template", "--side-arrays", "routed_experts"]
        engines = [word for url in urls for word in ("--engine", url)]
        self._gateway = self._child("gateway", *serve, *engines)
        self._second = self._child("second", *serve, "--engine", urls[0])
        self.url, second = self._gateway.ready(), self._second.ready()
        self.seen.gateway, self.seen.second = (url.removeprefix("http://") for url in (self.url, second))
        config = configured(folder, self.seen.gateway, self.seen.second, KEY)
        self.prometheus: Prometheus = stack.enter_context(prometheus(config))

    def _child(self, name: str, *words: str) -> Child:
        child = Child(self._folder / f"{name}.log", *words)
        self._stack.callback(child.kill)
        return child

    async def tell(self) -> Seen:
        """All of it, in about a minute."""
        began_s = time.monotonic()
        async with aiohttp.ClientSession() as http:
            agents = Agents(self.url, KEY, http)
            try:
                await self._well(agents)
                await self._ill(agents)
                await self._asked(http)
                await self._late()
            finally:
                await agents.end()
                self.seen.failures = agents.failures
        self._second.kill()
        await self._fires("GatewayDown")
        self.seen.took_s = time.monotonic() - began_s
        return self.seen

    async def _well(self, agents: Agents) -> None:
        """Agents that change nothing, a pause, and a policy announced in it."""
        agents.start(faithful, 3)
        agents.start(thoughtless)
        await asyncio.sleep(_WELL_S / 2)
        assert (await agents.post("/admin/pause", {"mode": "hold", "owner": "trainer"}))[0] == 200
        await asyncio.sleep(_WELL_S / 6)
        assert (await agents.post("/admin/resume", {"owner": "trainer", "version": "step-1"}))[0] == 200
        await asyncio.sleep(_WELL_S / 3)
        await self._quiet()
        self.seen.failures_well = list(agents.failures)

    async def _quiet(self) -> None:
        """Look until nothing fires and all are scraped: a scrape that a busy machine is late for comes to its end."""
        deadline_s = time.monotonic() + LIMIT_S
        while True:
            self.seen.targets = await asyncio.to_thread(self.prometheus.targets)
            self.seen.well = await asyncio.to_thread(self.prometheus.firing)
            fired = {alert["labels"]["alertname"] for alert in self.seen.well} - {"EventLoopLagging"}
            scraped = all(target["health"] == "up" for target in self.seen.targets)
            if (scraped and not fired) or time.monotonic() > deadline_s:
                return
            await asyncio.sleep(0.5)

    async def _ill(self, agents: Agents) -> None:
        """Agents of every bad manner, and an engine that is killed amid answers."""
        for manner in (rewriting, cold, impatient, repeating, mistaken):
            agents.start(manner)
        agents.start(rewriting)
        await self._fires("PrefixBreaksRising")
        await self._fires("RawLogprobsAtOtherTemperature")
        self._engines[1].kill()
        await self._fires("RankDown")

    async def _asked(self, http: aiohttp.ClientSession) -> None:
        """What the dashboards ask, while agents go on."""
        words = ("--rate-interval", "20s", "--range-s", "60", "--step-s", "1")
        asking = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "tools.panels", self.prometheus.url, *words),
            cwd=ROOT,
            env={**os.environ, "COLUMNS": "400"},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        said, _ = await asking.communicate()
        self.seen.panels, self.seen.panels_status = said.decode(), asking.returncode or 0
        async with http.get(f"{self.url}/metrics", headers={"Authorization": f"Bearer {KEY}"}) as response:
            assert response.status == 200
            self.seen.exposition = await response.text()

    async def _late(self) -> None:
        """A process that does not run half of the time."""

        async def stutter() -> None:
            while True:
                self._gateway.send(signal.SIGSTOP)
                try:
                    await asyncio.sleep(_STOPPED_S)
                finally:
                    self._gateway.send(signal.SIGCONT)
                await asyncio.sleep(_RUNNING_S)

        stuttering = asyncio.ensure_future(stutter())
        try:
            await self._fires("EventLoopLagging")
        finally:
            stuttering.cancel()
            await asyncio.wait([stuttering])

    async def _fires(self, name: str) -> None:
        deadline_s = time.monotonic() + LIMIT_S
        while time.monotonic() < deadline_s:
            for alert in await asyncio.to_thread(self.prometheus.firing):
                if alert["labels"]["alertname"] == name:
                    self.seen.fired[name] = alert
                    return
            await asyncio.sleep(0.5)


def told(folder: Path) -> Seen:
    """The story from beginning to end, with its files in a folder."""
    with ExitStack() as stack:
        story = Story(folder, stack)
        return asyncio.run(story.tell())
