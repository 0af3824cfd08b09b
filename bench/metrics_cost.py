"""What metrics cost a turn: ``python -m bench.metrics_cost``.

One client takes turns of a gateway in this process, the simulated engine being in one of its own. Whatever those turns
count and time is noted, and then done again, over and over and alone: the difference between turns with and without it
would drown in what else this process and its neighbours do. Prints the median CPU time of a turn, client included, that
of its metrics, and the turn with them as a multiple of the turn without. Exit code 1 when that is over `MOST_TIMES`.
"""

import argparse
import asyncio
import logging
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial
from statistics import median
from typing import Any
from unittest.mock import patch

import orjson
import structlog
import uvloop
from aiohttp.test_utils import TestClient, TestServer

from gateway.app import create_app
from gateway.edge.census import Census
from gateway.edge.metric_kinds import Counted, Timed, Weighted
from gateway.edge.metric_table import Phase
from gateway.edge.metrics import Metrics
from gateway.edge.pace import Pace
from gateway.edge.phases import Phases
from gateway.edge.stream import Stream
from gateway.render.demo import MODEL_NAME
from gateway.settings import Settings

MOST_TIMES = 1.05
TOKENS = 64
_WARM_TURNS = 50
_ROUNDS = 20
_STEPS = (Counted.inc, Timed.observe, Weighted.observe, Metrics.took, Metrics.count, Census.count, Pace.heard)
_OWNERS = (Counted, Timed, Weighted, Metrics, Metrics, Census, Pace)
Step = Callable[[], object]


class Noting:
    """What is counted and timed while this is in force, in order; of what does more of it inside, the whole."""

    def __init__(self) -> None:
        self.steps: list[Step] = []
        self._inside = False

    def noted(self, made: Callable[..., Any]) -> Callable[..., Any]:
        """The function, which notes that it was called."""

        def noting(*args: Any, **named: Any) -> Any:
            if self._inside:
                return made(*args, **named)
            self.steps.append(partial(made, *args, **named))
            self._inside = True
            try:
                return made(*args, **named)
            finally:
                self._inside = False

        return noting

    @contextmanager
    def in_force(self) -> Iterator[None]:
        """Note it meanwhile."""
        timed, written = Phases.timed, Stream._timed

        def block(phases: Phases, phase: Phase) -> AbstractContextManager[None]:
            self.steps.append(partial(_entered, timed, phases, phase))
            return timed(phases, phase)

        def parts(stream: Stream, made: Iterable[bytes]) -> Iterator[bytes]:
            every = list(made)
            self.steps.append(lambda: list(written(stream, every)))
            return written(stream, every)

        with ExitStack() as patches:
            for owner, made in zip(_OWNERS, _STEPS, strict=True):
                patches.enter_context(patch.object(owner, made.__name__, self.noted(made)))
            patches.enter_context(patch.object(Phases, "timed", block))
            patches.enter_context(patch.object(Stream, "_timed", parts))
            yield


def _entered(timed: Callable[[Phases, Phase], AbstractContextManager[None]], phases: Phases, phase: Phase) -> None:
    with timed(phases, phase):
        pass


@contextmanager
def simulated() -> Iterator[str]:
    """The URL of a simulated engine in a process of its own."""
    command = [sys.executable, "-m", "gateway", "sim", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        assert process.stdout is not None
        try:
            yield orjson.loads(process.stdout.readline())["url"]
        finally:
            process.terminate()


async def costs(engine: str, turns: int, *, stream: bool) -> tuple[float, float]:
    """CPU microseconds of a turn, and of its metrics."""
    spent_us, noting = list[float](), Noting()
    app = create_app(Settings(model=MODEL_NAME, engine=(engine,)))
    async with TestClient(TestServer(app)) as client:

        async def take(at: int) -> None:
            message = {"role": "user", "content": f"Tell me something about the number {at}."}
            body = {"messages": [message], "stream": stream, "max_tokens": TOKENS, "ignore_eos": True}
            async with client.post(f"/sessions/s{at}/v1/chat/completions", json=body) as answer:
                assert answer.status == 200, await answer.text()
                await answer.read()

        for at in range(_WARM_TURNS + turns):
            began_s = time.process_time()
            await take(at)
            spent_us.append((time.process_time() - began_s) * 1e6)
        with noting.in_force():
            for at in range(turns):
                await take(_WARM_TURNS + turns + at)
        again_us = min(_again_us(noting.steps) for _ in range(_ROUNDS)) / turns
    return median(spent_us[_WARM_TURNS:]), again_us


def _again_us(steps: Iterable[Step]) -> float:
    began_s = time.thread_time()
    for step in steps:
        step()
    return (time.thread_time() - began_s) * 1e6


async def run(turns: int) -> int:
    """Measure turns that are streamed and turns that are not."""
    worst = 0.0
    with simulated() as engine:
        for stream in (False, True):
            turn_us, metrics_us = await costs(engine, turns, stream=stream)
            times = turn_us / (turn_us - metrics_us)
            worst = max(worst, times)
            figures = f"turn_us={turn_us:.0f} metrics_us={metrics_us:.0f} times={times:.3f}"
            print(f"stream={str(stream).lower()} tokens={TOKENS} {figures}", flush=True)
    return int(worst > MOST_TIMES)


def main() -> int:
    """Measure as the flags say."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=200, help="turns of either kind")
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(run(parser.parse_args().turns))


if __name__ == "__main__":
    sys.exit(main())
