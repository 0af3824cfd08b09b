"""Of what an engine returns logprobs: asked when a turn's exactness hangs on it, and never since an engine is there.

A probe is two calls for one token, in a task of its own, whoever waits for it; an engine that is slow or paused is let
go after a while. Where logprobs must be exact a turn waits for it, and others begin it and go on. What was found out
stays until the engine may be another one. Turns that hang on it have it asked again: less and less often while it is
unknown, and after minutes when it is known, in case the engine was away between two turns and nobody noticed.

Mutable state: what was asked of each engine; what that came to is the engine's own.
"""

import asyncio
import secrets
import time
from collections.abc import Callable, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass
from math import inf
from weakref import WeakKeyDictionary

import structlog

from gateway.core.types import Completion
from gateway.edge.engine import Engine
from gateway.edge.gate import Gate
from gateway.edge.log import where
from gateway.errors import EngineProtocolError, EngineUnavailable, GatewayError, LogprobsUntold
from gateway.wire.collector import Collector
from gateway.wire.probe import (
    ALTERNATIVES,
    PROCESSED_FLAG,
    TEMPERATURES,
    LogprobsFinding,
    encode_probe,
    mode_of,
    unknown_by,
)

log = structlog.get_logger()

PATIENCE_S = 5.0
"""How long a probe may take; the first call with logprobs can take longer, and is faster when it is asked again."""
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 2.0, 300.0
"""Between two probes of one engine."""
_REPRIEVE_S = 30.0
"""How long an engine is not asked again, though it was away meanwhile, whose answer was none as we know them."""


@dataclass(slots=True, eq=False)
class _Inquiry:
    """What was asked of one engine since it may have become another one."""

    incarnation: int
    """Which of those that the engine has been."""
    task: asyncio.Task[None] | None = None
    """The last probe."""
    asked_s: float = -inf
    """When the last one that was not broken off ended."""
    pause_s: float = 0.0
    """How long after that the next is due."""
    is_in_vain: bool = False
    """Whether what it answered is no answer of an engine as we know them."""

    @property
    def under_way(self) -> bool:
        """Whether a probe is."""
        return self.task is not None and not self.task.done()

    def successor(self, incarnation: int) -> "_Inquiry":
        """Of what the engine is now. One whose answer was none is left alone as long, or each cut of a call would have
        it asked in vain.
        """
        if not self.is_in_vain:
            return _Inquiry(incarnation)
        return _Inquiry(incarnation, asked_s=self.asked_s, pause_s=_REPRIEVE_S, is_in_vain=True)


class Probes:
    """The probes of the engines of one gateway; all ask for a continuation of `prompt`. `clock` gives seconds.

    With `exact` no turn is sampled whose logprobs are not known to be exact. While the `gate` holds all turns nothing
    is asked.
    """

    def __init__(
        self,
        prompt: Sequence[int],
        clock: Callable[[], float] = time.monotonic,
        gate: Gate | None = None,
        *,
        exact: bool = False,
    ) -> None:
        self.exact = exact
        self._prompt = prompt
        self._clock = clock
        self._gate = gate or Gate()
        self._inquiries: WeakKeyDictionary[Engine, _Inquiry] = WeakKeyDictionary()
        self._tasks: set[asyncio.Task[None]] = set()

    def forget(self, engine: Engine) -> None:
        """An engine was removed: what is being asked of it is broken off."""
        former = self._inquiries.pop(engine, None)
        if former is not None and former.task is not None:
            former.task.cancel()

    def _inquiry(self, engine: Engine) -> _Inquiry:
        """That of what an engine is now; what was being asked of another one is broken off."""
        inquiry = self._inquiries.get(engine)
        if inquiry is None:
            inquiry = self._inquiries[engine] = _Inquiry(engine.incarnation)
        elif inquiry.incarnation != engine.incarnation:
            if inquiry.task is not None:
                inquiry.task.cancel()
            inquiry = self._inquiries[engine] = inquiry.successor(engine.incarnation)
        return inquiry

    def is_due(self, engine: Engine) -> bool:
        """Whether an engine should be asked, for who does not wait for it."""
        inquiry = self._inquiry(engine)
        if inquiry.under_way or not engine.is_known or self._is_held:
            return False
        return self._clock() >= inquiry.asked_s + inquiry.pause_s

    @property
    def _is_held(self) -> bool:
        return self._gate.held == "all"

    def begin(self, engine: Engine) -> None:
        """Ask an engine if that is due; nobody waits for it."""
        if self.is_due(engine):
            _ = self._task(engine)

    @property
    def under_way(self) -> int:
        """How many engines are being asked."""
        return len(self._tasks)

    async def close(self) -> None:
        """End what is under way."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def settle(self, engine: Engine) -> None:
        """Ask an engine that has not told now, unless it has just been asked; for who cannot go on without.

        Where it becomes another one meanwhile that is asked, all within the time that a probe may take.

        Raises:
            LogprobsUntold: it does not tell, and another time may.
            EngineUnavailable: its answers are none as we know them.
        """
        with suppress(TimeoutError):
            async with asyncio.timeout(PATIENCE_S):
                while self._may_tell(engine):
                    await asyncio.wait([self._task(engine)])
        if engine.logprobs.answered:
            return
        inquiry, why = self._inquiry(engine), f"is not known yet: {engine.logprobs.reason}"
        if inquiry.is_in_vain:
            raise EngineUnavailable(f"of what {engine.url} returns logprobs {why}")
        rest_s = max(0.0, inquiry.asked_s + _FIRST_PAUSE_S - self._clock())
        raise LogprobsUntold(f"of what {engine.url} returns logprobs {why}", rest_s=rest_s)

    def _may_tell(self, engine: Engine) -> bool:
        """Whether an engine has not told, and is being asked or may be."""
        inquiry = self._inquiry(engine)
        if engine.logprobs.answered or self._is_held:
            return False
        return inquiry.under_way or self._clock() >= inquiry.asked_s + _FIRST_PAUSE_S

    def _task(self, engine: Engine) -> asyncio.Task[None]:
        inquiry = self._inquiry(engine)
        if inquiry.task is None or inquiry.task.done():
            inquiry.task = asyncio.create_task(self._probe(engine, inquiry))
            self._tasks.add(inquiry.task)
            inquiry.task.add_done_callback(self._tasks.discard)
        return inquiry.task

    async def _probe(self, engine: Engine, inquiry: _Inquiry) -> None:
        if self._is_held:  # it was closed since that was decided
            return
        with self._gate.beside_turns():
            finding = await probed(engine, self._prompt, PATIENCE_S)
        doubled_s = min(max(inquiry.pause_s * 2, _FIRST_PAUSE_S), _LONGEST_PAUSE_S)
        inquiry.is_in_vain = not finding.is_usable
        inquiry.pause_s = _LONGEST_PAUSE_S if finding.mode in ("processed", "raw") else doubled_s
        inquiry.pause_s = max(inquiry.pause_s, _REPRIEVE_S if inquiry.is_in_vain else 0.0)
        inquiry.asked_s = self._clock()
        if inquiry.incarnation == engine.incarnation and engine.learn(finding):
            _tell(engine)


async def probed(engine: Engine, prompt: Sequence[int], within_s: float) -> LogprobsFinding:
    """What two calls tell of an engine's logprobs. It does not raise: what cannot be found out is unknown."""
    if unknown := unknown_by(engine.version):
        return unknown
    try:
        async with asyncio.timeout(within_s):
            # One after the other: side by side they would be computed together, and other than alone.
            cold, warm = [await _sampled(engine, prompt, temperature) for temperature in TEMPERATURES]
        return mode_of(cold, warm)
    except TimeoutError:
        reason = "it did not answer in time: is it paused?"
    except EngineProtocolError as error:
        return LogprobsFinding("unknown", error.message, answered=False, is_usable=False)
    except GatewayError as error:
        reason = error.message
    except Exception:
        log.exception("a probe failed", engine=engine.url, **where())
        reason = "the probe failed, see the log"
    return LogprobsFinding("untold", reason, answered=False)


async def _sampled(engine: Engine, prompt: Sequence[int], temperature: float) -> Completion:
    collector, request_id = Collector(ALTERNATIVES), f"probe-{secrets.token_hex(12)}"
    async with aclosing(engine.generate(encode_probe(prompt, temperature), request_id=request_id)) as payloads:
        async for payload in payloads:
            collector.feed(payload)
    return collector.completion()


def _tell(engine: Engine) -> None:
    mode, reason, *_ = engine.logprobs
    if mode == "processed":
        log.info("logprobs are those of what is sampled from", engine=engine.url, mode=mode)
        return
    drawback = "only turns at temperature 1 that nothing truncates or penalises have exact logprobs"
    remedy = f"start vLLM with {PROCESSED_FLAG}"
    log.warning(drawback, engine=engine.url, mode=mode, reason=reason, remedy=remedy)
