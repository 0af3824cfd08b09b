"""Of what each engine returns logprobs: asked when it is admitted, and again, less and less often, while it is unknown.

A probe is two calls for one token. It holds nothing up: an engine that is slow or paused is let go after a while, and
takes turns meanwhile. Each runs in a task of its own, whoever waits for it, until the engine is another one or the
gateway stops. What was found out stays until the engine was away, since it may be another one then; it is asked again
after minutes, in case it was away between two turns and nobody noticed.

Mutable state: what was asked of each engine; what that came to is the engine's own.
"""

import asyncio
import secrets
import time
from collections.abc import Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from math import inf

import structlog

from gateway.core.types import Completion
from gateway.edge.engine import Engine
from gateway.edge.log import where
from gateway.errors import EngineUnavailable, GatewayError
from gateway.wire.collector import Collector
from gateway.wire.probe import (
    ALTERNATIVES,
    PROCESSED_FLAG,
    TEMPERATURES,
    LogprobsFinding,
    encode_probe,
    mode_of,
    untold_by,
)

log = structlog.get_logger()

PATIENCE_S = 5.0
"""How long a probe may take; the first call with logprobs can take longer, and is faster when it is asked again."""
_START_S = 1.0
"""How long the start may be held up by the first ones."""
_WATCH_INTERVAL_S = 2.0
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 2.0, 300.0
"""Between two probes of one engine."""


@dataclass(slots=True, eq=False)
class _Inquiry:
    """What was asked of one engine since it was admitted."""

    task: asyncio.Task[None] | None = None
    """The last probe."""
    asked_s: float = -inf
    """When the last one that was not broken off ended."""
    pause_s: float = 0.0
    """How long after that the next is due."""

    @property
    def under_way(self) -> bool:
        """Whether a probe is."""
        return self.task is not None and not self.task.done()


class Probes:
    """The probes of the engines of one gateway; all ask for a continuation of `prompt`. `clock` gives seconds."""

    def __init__(self, prompt: Sequence[int], clock: Callable[[], float] = time.monotonic) -> None:
        self._prompt = prompt
        self._clock = clock
        self._inquiries: dict[Engine, _Inquiry] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def admit(self, engine: Engine) -> None:
        """An engine answers, at first or again: it is due, and what is being asked was of another one."""
        former = self._inquiries.get(engine)
        if former is not None and former.task is not None:
            if former.task is asyncio.current_task():
                return  # it noticed, and asks the one that there is now
            former.task.cancel()
        self._inquiries[engine] = _Inquiry()

    def is_due(self, engine: Engine) -> bool:
        """Whether an engine is there and should be asked now."""
        inquiry = self._inquiries.get(engine)
        if inquiry is None or inquiry.under_way or engine.max_model_len is None:
            return False
        return self._clock() >= inquiry.asked_s + inquiry.pause_s

    async def begin(self) -> None:
        """Ask the engines that are there; they are waited for, but not for long."""
        if tasks := self._ask_due():
            await asyncio.wait(tasks, timeout=_START_S)

    async def watch(self) -> None:
        """Keep asking, until cancelled."""
        while True:
            await asyncio.sleep(_WATCH_INTERVAL_S)
            self._ask_due()

    async def close(self) -> None:
        """End what is under way."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def ask(self, engine: Engine) -> None:
        """Wait for the probe of an engine that is under way, or else for a new one; who leaves ends nothing."""
        await asyncio.wait([self._task(engine)], timeout=PATIENCE_S)

    async def settle(self, engine: Engine) -> None:
        """Ask an engine that has not told now, unless it has just been asked; for who cannot go on without.

        Raises:
            EngineUnavailable: it does not tell, and another time may.
        """
        inquiry = self._inquiries[engine]
        rested = self._clock() >= inquiry.asked_s + _FIRST_PAUSE_S
        if not engine.logprobs.answered and (inquiry.under_way or rested):
            await self.ask(engine)
        if not engine.logprobs.answered:
            raise EngineUnavailable(f"of what {engine.url} returns logprobs is not known yet: {engine.logprobs.reason}")

    def _ask_due(self) -> list[asyncio.Task[None]]:
        return [self._task(engine) for engine in self._inquiries if self.is_due(engine)]

    def _task(self, engine: Engine) -> asyncio.Task[None]:
        inquiry = self._inquiries[engine]
        if inquiry.task is None or inquiry.task.done():
            inquiry.task = asyncio.create_task(self._probe(engine, inquiry))
            self._tasks.add(inquiry.task)
            inquiry.task.add_done_callback(self._tasks.discard)
        return inquiry.task

    async def _probe(self, engine: Engine, inquiry: _Inquiry) -> None:
        finding = await probed(engine, self._prompt, PATIENCE_S)
        doubled_s = min(max(inquiry.pause_s * 2, _FIRST_PAUSE_S), _LONGEST_PAUSE_S)
        inquiry.pause_s = doubled_s if finding.mode == "unknown" else _LONGEST_PAUSE_S
        inquiry.asked_s = self._clock()
        if engine.learn(finding):
            _tell(engine)


async def probed(engine: Engine, prompt: Sequence[int], within_s: float) -> LogprobsFinding:
    """What two calls tell of an engine's logprobs. It does not raise: what cannot be found out is unknown."""
    if untold := untold_by(engine.version):
        return untold
    try:
        async with asyncio.timeout(within_s):
            # One after the other: side by side they would be computed together, and other than alone.
            cold, warm = [await _sampled(engine, prompt, temperature) for temperature in TEMPERATURES]
        return mode_of(cold, warm)
    except TimeoutError:
        reason = "it did not answer in time: is it paused?"
    except GatewayError as error:
        reason = error.message
    except Exception:
        log.exception("a probe failed", engine=engine.url, **where())
        reason = "the probe failed, see the log"
    return LogprobsFinding("unknown", reason, answered=False)


async def _sampled(engine: Engine, prompt: Sequence[int], temperature: float) -> Completion:
    collector, request_id = Collector(ALTERNATIVES), f"probe-{secrets.token_hex(12)}"
    async with aclosing(engine.generate(encode_probe(prompt, temperature), request_id=request_id)) as payloads:
        async for payload in payloads:
            collector.feed(payload)
    return collector.completion()


def _tell(engine: Engine) -> None:
    mode, reason, _ = engine.logprobs
    if mode == "processed":
        log.info("logprobs are those of what is sampled from", engine=engine.url, mode=mode)
        return
    drawback = "only turns at temperature 1 that nothing truncates or penalises have exact logprobs"
    remedy = f"start vLLM with {PROCESSED_FLAG}"
    log.warning(drawback, engine=engine.url, mode=mode, reason=reason, remedy=remedy)
