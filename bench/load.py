"""Many clients that stream at once, a fifth of whose calls they hang up on: ``python -m bench.load --seconds 60``.

A gateway, the simulated engine with the demo's model and all clients run in one process over real sockets, so that
what is left over of tasks and sockets can be counted. Each client takes `TURNS` turns of a session with tools and
then begins another one; after it has hung up it asks again, sometimes as a retry. Afterwards what was recorded, and
what a trainer is given of it, is held against the engine's own journal. Prints one line of figures; exit code 1 when
an invariant broke, or anything was left over.
"""

import argparse
import asyncio
import gc
import sys
import time
import warnings
from collections import defaultdict
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from random import Random
from typing import Any

import aiohttp
import structlog
import uvloop
from aiohttp.test_utils import TestClient

from bench.evidence import Recorded, breaks_of
from gateway.app import create_app
from gateway.demo.agent import TOOLS
from gateway.edge.store import MemoryStore
from gateway.render.demo import FOLDER, MODEL_NAME
from gateway.settings import Settings
from gateway.sim import JOURNAL, create_sim
from tests.edge.house import House, Json, serving, until, user
from tests.edge.streams import Streamed, reading

TURNS = 6
_HANG_UPS = 0.27
"""Share of the calls that are chosen for it. Some of them have read all by then, so that a fifth is hung up on."""
_USUAL_TOKENS = 60
_LATEST_MOMENT = 1.25
"""Clients hang up within so many times the length of a usual answer; those that are late have read it all."""
_WATCH_INTERVAL_S = 0.05
_SHARE = 0.9
"""Of the clients that must be streaming at any time; the others are between two turns."""
GAUGES = ("gateway_streams", "gateway_stream_buffered_bytes", "gateway_turns_in_flight")
_SETTLED_WITHIN_S = 15.0
"""When all is over, pooled connections to the engine are kept for a few seconds more."""


@dataclass(frozen=True, slots=True)
class Plan:
    """How much is asked of the gateway."""

    streams: int
    seconds: float
    token_delay_s: float
    seed: int = 0


@dataclass(slots=True)
class Figures:
    """What happened."""

    heard: int = 0
    """Answers that their clients read to the end."""
    hung_up: int = 0
    concurrent: list[int] = field(default_factory=list)
    """How many calls the engine was answering, noted again and again while all clients were there."""
    lag_s: float = 0.0
    """How late the event loop was at worst."""
    cpu_s: float = 0.0
    complete: int = 0
    aborted: int = 0
    bridged: int = 0
    tokens: int = 0
    faults: list[str] = field(default_factory=list)
    """What must not be."""

    def count(self, recorded: Recorded) -> None:
        """Count what was recorded."""
        turns = [turn for of_session in recorded.values() for turn in of_session]
        self.complete = sum(turn.status == "complete" for turn in turns)
        self.aborted = len(turns) - self.complete
        self.bridged = sum(turn.how == "bridged" for turn in turns)
        self.tokens = sum(len(turn.completion.ids) for turn in turns)

    @property
    def mean_streams(self) -> float:
        """How many calls the engine was answering at once."""
        return sum(self.concurrent) / max(1, len(self.concurrent))

    def line(self) -> str:
        """All on one line."""
        return (
            f"streams_mean={self.mean_streams:.0f} streams_max={max(self.concurrent, default=0)} heard={self.heard} "
            f"hung_up={self.hung_up} turns_complete={self.complete} turns_aborted={self.aborted} "
            f"turns_bridged={self.bridged} tokens={self.tokens} "
            f"cpu_s={self.cpu_s:.1f} loop_lag_ms_max={self.lag_s * 1000:.0f} faults={len(self.faults)}"
        )


class Crowd:
    """The clients, and what they heard."""

    def __init__(self, house: House, plan: Plan, figures: Figures) -> None:
        self._house = house
        self._plan = plan
        self._figures = figures
        self._began_s = time.monotonic()
        self._usual_s = _USUAL_TOKENS * plan.token_delay_s
        self.heard: dict[str, list[int]] = {}
        """The ids of every answer that was read to its end, by its turn."""

    @property
    def is_over(self) -> bool:
        """Whether nothing more is to be asked."""
        return time.monotonic() >= self._began_s + self._plan.seconds

    @property
    def is_whole(self) -> bool:
        """Whether all clients are there: they have come within a quarter of the time."""
        return not self.is_over and time.monotonic() >= self._began_s + self._plan.seconds / 4

    async def client(self, number: int) -> None:
        """One client, until the time is over."""
        random = Random(f"{self._plan.seed} {number}")
        await asyncio.sleep(random.random() * self._plan.seconds / 8)
        sessions = count()
        while not self.is_over:
            await self._session(f"s{number}-{next(sessions)}", random)

    async def _session(self, session: str, random: Random) -> None:
        messages: list[Json] = [{"role": "system", "content": "You are a careful assistant. Use the tools."}]
        for turn in range(TURNS):
            calls = messages[-1].get("tool_calls") or ()
            results = [{"role": "tool", "tool_call_id": call["id"], "content": f"{turn} entries"} for call in calls]
            messages += results or [user(f"How many letters of year {random.randrange(1700, 1900)} are there?")]
            headers: dict[str, str] = {}
            while (message := await self._asked(session, messages, random, headers)) is None:
                headers = random.choice([{}, {"x-stainless-retry-count": "1"}])
                if self.is_over:
                    return
            messages.append(message)
            if self.is_over:
                return

    async def _asked(
        self, session: str, messages: Sequence[Json], random: Random, headers: dict[str, str]
    ) -> Json | None:
        """One call; its answer, or ``None`` when the client hung up."""
        leaves_after_s = random.random() * _LATEST_MOMENT * self._usual_s if random.random() < _HANG_UPS else None
        started_s = time.monotonic()
        fields: Json = {"tools": TOOLS, "seed": random.randrange(1 << 30), "return_token_ids": True, "headers": headers}
        if headers:
            del fields["seed"]  # nobody's retry, mostly, but marked as one
        try:
            async with asyncio.timeout(leaves_after_s):
                async with reading(self._house, session, messages, **fields) as (streamed, chunks):
                    async for _ in chunks:
                        pass
        except TimeoutError:
            self._figures.hung_up += 1
            return None
        except aiohttp.ClientError as error:
            after_s = time.monotonic() - self._began_s
            self._figures.faults.append(f"a client's connection failed {after_s:.1f} s after the beginning: {error!r}")
            return None
        self._usual_s += (time.monotonic() - started_s - self._usual_s) / 16
        return self._noted(streamed)

    def _noted(self, streamed: Streamed) -> Json:
        choice = streamed.choice()
        if not streamed.done or streamed.error is not None or choice["finish_reason"] not in ("stop", "tool_calls"):
            self._figures.faults.append(f"a client heard {streamed.status} {streamed.error} {choice['finish_reason']}")
        self._figures.heard += 1
        self.heard[streamed.headers["x-turn-id"]] = choice["token_ids"]
        return streamed.message


class RecordingStore(MemoryStore):
    """Keeps every turn that it is given, by its session."""

    def __init__(self) -> None:
        self.turns: Recorded = defaultdict(list)

    async def put(self, session_id: str, turns: Sequence[Any]) -> None:
        """Keep the turns."""
        self.turns[session_id] += turns


@asynccontextmanager
async def opened(plan: Plan, store: RecordingStore) -> AsyncIterator[House]:
    """A gateway, its engine, and a client without a limit on its connections."""
    async with AsyncExitStack() as stack:
        sim = create_sim(
            tokenizer=FOLDER,
            token_delay_s=plan.token_delay_s,
            max_running=plan.streams,
            journal_size=1 << 30,
            logprobs_mode="processed_logprobs",  # whose absence is warned of
        )
        engine = await stack.enter_async_context(serving(sim))
        settings = Settings(
            model=MODEL_NAME,
            engine=(str(engine.make_url("")),),
            client_seed="keep",
            health_interval_s=3600,  # the sockets of checks come and go by themselves
        )
        gateway = await stack.enter_async_context(serving(create_app(settings, store=store)))
        client = TestClient(gateway, connector=aiohttp.TCPConnector(limit=0))
        yield House(await stack.enter_async_context(client), sim)


async def loaded(plan: Plan) -> Figures:
    """Do it, and judge it."""
    figures, store, before = Figures(), RecordingStore(), held()
    asyncio.get_running_loop().set_exception_handler(lambda _, context: figures.faults.append(str(context)))
    with warnings.catch_warnings(record=True) as warned, structlog.testing.capture_logs() as logged:
        warnings.simplefilter("always")
        async with opened(plan, store) as house:
            tasks, sockets = held()
            idle = tasks - 1, sockets - 2  # less the connection over which the engine was asked for its models
            heard = await _crowded(house, plan, figures)
            await house.idle()
            request_ids = {line["turn_id"]: line["request_id"] for line in logged if line["event"] == "turn"}
            figures.faults += await breaks_of(house, store.turns, request_ids, heard)
            figures.faults += [f"{gauge} is not 0 when all is over" for gauge in GAUGES if await house.metric(gauge)]
            await house.http.session.close()
            figures.faults += await _left_over(idle)
        figures.faults += await _left_over(before)
        gc.collect()
    figures.count(store.turns)
    figures.faults += [f"{warning.category.__name__}: {warning.message}" for warning in warned]
    figures.faults += [str(line) for line in logged if line["log_level"] not in ("debug", "info")]
    return figures


async def _crowded(house: House, plan: Plan, figures: Figures) -> dict[str, list[int]]:
    """Let all clients come, and wait until they have left; what they heard."""
    crowd, started_s = Crowd(house, plan, figures), time.process_time()
    async with asyncio.TaskGroup() as group:
        clients = [group.create_task(crowd.client(number)) for number in range(plan.streams)]
        watch = group.create_task(_watch(house, crowd, figures))
        await asyncio.wait(clients)
        watch.cancel()
    figures.cpu_s = time.process_time() - started_s
    return crowd.heard


async def _watch(house: House, crowd: Crowd, figures: Figures) -> None:
    """Note how many calls the engine answers, from a quarter of the time on, and how late the event loop is."""
    while True:
        due_s = time.monotonic() + _WATCH_INTERVAL_S
        await asyncio.sleep(_WATCH_INTERVAL_S)
        figures.lag_s = max(figures.lag_s, time.monotonic() - due_s)
        if crowd.is_whole:
            figures.concurrent.append(house.sim[JOURNAL].running)


def held() -> tuple[int, int]:
    """How many tasks there are in this event loop, and how many sockets in this process."""
    links = [link for link in Path("/proc/self/fd").iterdir() if link.is_symlink()]
    return len(asyncio.all_tasks()), sum(str(link.readlink()).startswith("socket:") for link in links)


async def _left_over(before: tuple[int, int]) -> list[str]:
    """What is held more than before, as long as that may take."""

    def is_none() -> bool:  # a connection that was kept for the next check before may be closed by now
        return all(now <= then for now, then in zip(held(), before, strict=True))

    with suppress(AssertionError):
        await until(is_none, within_s=_SETTLED_WITHIN_S)
    if is_none():
        return []
    tasks, sockets = held()
    names = sorted(getattr(task.get_coro(), "__qualname__", "?") for task in asyncio.all_tasks())
    return [f"{tasks - before[0]} tasks and {sockets - before[1]} sockets were left over; tasks: {names}"]


def main() -> int:
    """Load it as the flags say."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--streams", type=int, default=500)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--token-delay-s", type=float, default=0.3, help="large enough that the machine keeps up")
    parser.add_argument("--seed", type=int, default=0)
    plan = Plan(**vars(parser.parse_args()))
    structlog.configure()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        figures = runner.run(loaded(plan))
    for fault in figures.faults[:20]:
        print(fault[:2000], file=sys.stderr)
    print(figures.line())
    if figures.mean_streams < _SHARE * plan.streams:
        print(f"not {plan.streams} streams at once: this machine wants a larger --token-delay-s", file=sys.stderr)
        return 1
    return int(bool(figures.faults))


if __name__ == "__main__":
    sys.exit(main())
