"""What taking a turn needs."""

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import TypeVar

from gateway.core.breaker import ResumeBudget
from gateway.core.salt import SaltRule, salt
from gateway.core.types import TurnRequest
from gateway.core.versions import Versions
from gateway.edge.backends import Backends
from gateway.edge.metrics import Metrics
from gateway.edge.probe import Probes
from gateway.edge.running import Running
from gateway.edge.session import Session
from gateway.edge.stall import Stalls
from gateway.edge.store import Store
from gateway.render.patience import Patience
from gateway.render.registry import Renderers
from gateway.wire.generate import STREAM_INTERVAL_TOKENS
from gateway.wire.pieces import TextOf

T = TypeVar("T")


@dataclass(frozen=True, slots=True, eq=False)
class Resuming:
    """How answers that engines cut short are carried on: how often each, and the bounds of the whole fleet."""

    attempts: int = 0
    """With 0 a turn fails with its first call."""
    stalls: Stalls = field(default_factory=Stalls)
    budget: ResumeBudget = field(default_factory=ResumeBudget)
    clock: Callable[[], float] = time.monotonic


@dataclass(frozen=True, slots=True)
class Deps:
    """What taking a turn needs."""

    renderers: Renderers
    backends: Backends
    store: Store
    metrics: Metrics
    render_threads: ThreadPoolExecutor
    """All rendering happens here, one prompt at a time, or several where a renderer waits for a network: it takes a
    third of a second at 128k tokens, of which the event loop stands still for some milliseconds at a time
    (docs/adr/0002). Streams are read on the event loop meanwhile, a few ids at a time; who may use the tokenizer when
    is said in `gateway.render.lock`."""
    probes: Probes
    """Who finds out of what engines return logprobs."""
    versions: Versions = field(default_factory=Versions)
    """The policy versions that turns were sampled by."""
    running: Running = field(default_factory=Running)
    """The calls that engines sample for now."""
    cache_salt: SaltRule = "start"
    """Whose policy version keeps prefix caches apart."""
    resuming: Resuming = field(default_factory=Resuming)
    """How answers that engines cut short are carried on."""
    stream_interval_tokens: int = STREAM_INTERVAL_TOKENS
    """How many ids the engine is asked to put into one event."""
    side_arrays: tuple[str, ...] = ()
    """What is kept of each turn beside ids and logprobs."""

    @property
    def text_of(self) -> TextOf:
        """What a token id says."""
        return self.renderers.text_of

    def salted(self, request: TurnRequest, session: Session) -> TurnRequest:
        """A request that goes to an engine now, with a salt that keeps apart what the policies have cached."""
        current, own = self.versions.now, request.cache_salt
        return replace(
            request, cache_salt=salt(self.cache_salt, start=session.start.at(current), current=current, own=own)
        )

    async def rendering(self, call: Callable[[], T]) -> T:
        """Run one call of a renderer off the event loop. Cancelled, it gives its thread back, whatever it waits for."""
        patience = Patience()
        try:
            return await asyncio.get_running_loop().run_in_executor(self.render_threads, patience.run, call)
        except asyncio.CancelledError:
            patience.leave()
            raise
