"""Of what each engine returns logprobs: asked when it is admitted, and again, less and less often, while it is unknown.

A probe is two calls for one token. It holds nothing up: an engine that is slow or paused is let go after a while, and
takes turns meanwhile. What was found out stays until the engine was away, since it may be another one then; it is
asked again after minutes, in case it was away between two turns and nobody noticed.

Mutable state: `Engine.logprobs`, and what is known here of each engine.
"""

import asyncio
import secrets
import time
from collections.abc import Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field

import structlog

from gateway.core.types import Completion
from gateway.edge.engine import Engine
from gateway.errors import EngineUnavailable, GatewayError
from gateway.wire.collector import Collector
from gateway.wire.probe import ALTERNATIVES, PROCESSED_FLAG, TEMPERATURES, Found, encode_probe, mode_of

log = structlog.get_logger()

PATIENCE_S = 5.0
"""How long a probe may take; the first call with logprobs can take longer, and is faster when it is asked again."""
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 2.0, 300.0
"""Between two probes of one engine."""
_SILENT = "it did not answer in time: is it paused?"


@dataclass(slots=True, eq=False)
class _Standing:
    """How one engine, since it was admitted, stands with its probes."""

    asking: asyncio.Lock = field(default_factory=asyncio.Lock)
    asked_s: float = -_LONGEST_PAUSE_S
    """When the last probe ended."""
    pause_s: float = 0.0
    """How long after that the next is due."""
    silent: bool = True
    """Whether it has not answered a probe so far, be it with an error."""


class Probes:
    """The probes of the engines of one gateway; all ask for a continuation of `prompt`. `clock` gives seconds."""

    def __init__(self, prompt: Sequence[int], clock: Callable[[], float] = time.monotonic) -> None:
        self._prompt = prompt
        self._clock = clock
        self._standings: dict[Engine, _Standing] = {}

    def renew(self, engine: Engine) -> None:
        """An engine was admitted: nothing is known of it."""
        engine.logprobs = Found("unknown", "it was not asked yet")
        self._standings[engine] = _Standing()

    def is_due(self, engine: Engine) -> bool:
        """Whether an engine is there and should be asked now."""
        standing = self._standings.get(engine)
        waited = standing is not None and self._clock() >= standing.asked_s + standing.pause_s
        return standing is not None and waited and engine.max_model_len is not None and not standing.asking.locked()

    async def ask(self, engine: Engine, *, within_s: float = PATIENCE_S) -> None:
        """Probe an engine, or wait for the probe under way. It does not raise: what cannot be found out is unknown."""
        standing = self._standings[engine]
        if standing.asking.locked():
            async with standing.asking:
                return
        async with standing.asking:
            try:
                found, standing.silent = await _probed(engine, self._prompt, within_s)
            finally:
                doubled_s = min(max(standing.pause_s * 2, _FIRST_PAUSE_S), _LONGEST_PAUSE_S)
                standing.asked_s, standing.pause_s = self._clock(), doubled_s
        if found.mode != "unknown":
            standing.pause_s = _LONGEST_PAUSE_S
        elif engine.logprobs.mode != "unknown":
            return  # that it does not answer now changes nothing
        if self._standings[engine] is standing and found != engine.logprobs:
            engine.logprobs = found
            _tell(engine)

    async def settle(self, engine: Engine) -> None:
        """Ask an engine of which it is unknown now, unless it has just been asked: the caller cannot go on without.

        Raises:
            EngineUnavailable: it does not answer, so that another time more may be known.
        """
        standing = self._standings[engine]
        if engine.logprobs.mode == "unknown" and self._clock() >= standing.asked_s + _FIRST_PAUSE_S:
            await self.ask(engine)
        if engine.logprobs.mode == "unknown" and standing.silent:
            raise EngineUnavailable(f"of what {engine.url} returns logprobs is not known yet: {engine.logprobs.reason}")


async def _probed(engine: Engine, prompt: Sequence[int], within_s: float) -> tuple[Found, bool]:
    """What two calls say, and whether the engine said nothing."""
    try:
        async with asyncio.timeout(within_s):
            # One after the other: side by side they would be computed together, and other than alone.
            cold, warm = [await _sampled(engine, prompt, temperature) for temperature in TEMPERATURES]
    except TimeoutError:
        return Found("unknown", _SILENT), True
    except GatewayError as error:
        return Found("unknown", error.message), isinstance(error, EngineUnavailable)
    return mode_of(cold, warm), False


async def _sampled(engine: Engine, prompt: Sequence[int], temperature: float) -> Completion:
    collector, request_id = Collector(ALTERNATIVES), f"probe-{secrets.token_hex(12)}"
    async with aclosing(engine.generate(encode_probe(prompt, temperature), request_id=request_id)) as payloads:
        async for payload in payloads:
            collector.feed(payload)
    return collector.completion()


def _tell(engine: Engine) -> None:
    mode, reason = engine.logprobs
    if mode == "processed":
        log.info("logprobs are those of what is sampled from", engine=engine.url, mode=mode)
        return
    drawback = "only turns at temperature 1 that nothing truncates or penalises have exact logprobs"
    remedy = f"start vLLM with {PROCESSED_FLAG}"
    log.warning(drawback, engine=engine.url, mode=mode, reason=reason, remedy=remedy)
