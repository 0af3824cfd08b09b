"""When an engine's silence means that it will not go on: not while it prefills, queues, or is paused."""

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import contextmanager

import structlog

from gateway.core.breaker import Breaker
from gateway.edge.backends import Backends
from gateway.edge.checks import is_paused
from gateway.edge.engine import Engine
from gateway.edge.rank import Gauges
from gateway.edge.running import EngineCall

log = structlog.get_logger()

_LOOKS = 4
"""How often it is looked at least within the time after which silence is a stall."""


class Silence:
    """How long an engine has said nothing in one call. Time in which nobody listened does not count."""

    def __init__(self, call: EngineCall) -> None:
        self.call = call
        self.begun = False
        """Whether an id of this call has come."""
        self.since_s: float | None = None
        """When it was first seen to be silent; ``None`` when it was not, or has spoken since."""
        self.before: Gauges | None = None
        """What the engine said of the rank then."""
        self.was_down = False
        """Whether since then its rank was seen to be down."""
        self._listens = False

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Wait for the next word."""
        self._listens = True
        try:
            yield
        finally:
            self._listens, self.since_s, self.was_down = False, None, False

    def look(self, now_s: float, gauges: Gauges | None, *, anew: bool) -> float:
        """See whether it is silent; for how long it was. With `anew` that begins now."""
        if not self._listens:
            self.since_s = None
        elif anew or self.since_s is None:
            self.since_s, self.before = now_s, gauges
        return 0.0 if self.since_s is None else now_s - self.since_s


class Stalls:
    """The calls that are listened to, and who ends those whose engine has stalled. Mutable: they come and go."""

    def __init__(self, stall_s: float = 120.0, clock: Callable[[], float] = time.monotonic) -> None:
        self.breaker = Breaker()
        self._stall_s = stall_s
        self._clock = clock
        self._silences: set[Silence] = set()

    @contextmanager
    def watched(self, call: EngineCall) -> Iterator[Silence]:
        """A call that is interrupted when its engine stalls."""
        silence = Silence(call)
        self._silences.add(silence)
        try:
            yield silence
        finally:
            self._silences.discard(silence)
            self.breaker.ended(self._clock())

    async def run(self, backends: Backends) -> None:
        """Interrupt what stalls, until cancelled."""
        while True:
            await asyncio.sleep(min(self._stall_s / _LOOKS, backends.places.bounds.health_interval_s))
            await self.look(backends)

    async def look(self, backends: Backends) -> None:
        """Interrupt what has stalled by now."""
        suspects: dict[Engine, list[Silence]] = {}
        for silence in self._silences:
            if self._is_lost(silence, backends) and backends.serves:
                silence.call.interrupt("lost")
            elif self._seems_stalled(silence, backends):
                suspects.setdefault(silence.call.rank.engine, []).append(silence)
        paused = await asyncio.gather(*map(is_paused, suspects))
        for silences, says_paused in zip(suspects.values(), paused, strict=True):
            for silence in silences:
                if silence.since_s is None or silence not in self._silences:
                    continue  # it has spoken, or ended
                if says_paused or backends.gate.held is not None or not self._is_believed():
                    silence.since_s = None
                else:
                    silence.call.interrupt("stall")

    def _is_lost(self, silence: Silence, backends: Backends) -> bool:
        """Whether it was silent for a while when its rank was down, and has been since: that rank may be up by now, but
        does not know of the call any more, if it was started anew.
        """
        since_s, least_s = silence.since_s, backends.places.bounds.health_interval_s
        if backends.gate.held is not None:
            silence.was_down = False
        elif silence.call.rank.health.state == "down" and since_s is not None:
            silence.was_down |= self._clock() - since_s >= least_s
        return silence.was_down

    def _seems_stalled(self, silence: Silence, backends: Backends) -> bool:
        now_s = self._clock()
        gauges = silence.call.rank.fresh_gauges(now_s, backends.places.bounds.health_interval_s)
        if silence.look(now_s, gauges, anew=backends.gate.held is not None) < self._stall_s:
            return False
        if seems_dead(silence.before, gauges, begun=silence.begun):
            return True
        silence.look(now_s, gauges, anew=True)
        return False

    def _is_believed(self) -> bool:
        believed = self.breaker.stalled(self._clock(), len(self._silences))
        if not believed:
            log.warning("all is slow: silence is no stall for a minute", in_flight=len(self._silences))
        return believed


def seems_dead(before: Gauges | None, after: Gauges | None, *, begun: bool) -> bool:
    """Whether silence is a stall, by what the engine said of the rank at the silence's beginning and says now.

    An engine that was started anew knows of no call of before, and one that has nothing to do knows not of this one.
    Otherwise an answer that has begun may have been preempted, where requests wait and others go on. One that has not
    may wait for its prompt to be read, and is dead only where the rank has something to do and does nothing at all.
    """
    if before is None or after is None or after.at_s <= before.at_s:
        return begun
    anew = after.generation_tokens < before.generation_tokens or after.prompt_tokens < before.prompt_tokens
    idle = not any(told.running or told.waiting for told in (before, after))
    if anew or idle:
        return True
    if begun:
        return not (after.waiting and after.generation_tokens > before.generation_tokens)
    done = [(told.generation_tokens, told.prompt_tokens, told.kv_usage) for told in (before, after)]
    return bool(before.running and after.running) and done[0] == done[1]


async def next_event(events: AsyncGenerator[bytes], silence: Silence) -> bytes | None:
    """The next event; ``None`` when there is none, or the call was interrupted. What one brings is not cut in two."""
    try:
        async with asyncio.timeout(None) as scope:
            with silence.call.within(scope), silence.listening():
                return await anext(events, None)
    except TimeoutError:
        if not silence.call.interrupted:
            raise
        return None
