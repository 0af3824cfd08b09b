"""The side arrays that this gateway keeps, and the engines that do not send them."""

import asyncio
from dataclasses import dataclass, field

import structlog

from gateway.core.types import Completion
from gateway.edge.metrics import Metrics
from gateway.wire.collector import Collector

log = structlog.get_logger()

_LARGE_BYTES = 1 << 20
"""From here on, decoding would hold up everybody else for milliseconds."""


@dataclass(frozen=True, slots=True)
class WantedArrays:
    """What is kept of each turn beside ids and logprobs."""

    names: tuple[str, ...] = ()
    _warned: set[tuple[str, str]] = field(default_factory=set)
    # Engines that lack something, each with the array that it lacks: it is said once.

    async def completed(self, collector: Collector, engine: str, metrics: Metrics) -> Completion:
        """A whole completion with its side arrays. One that is missing is no error: it is counted, and logged once.

        Raises:
            GatewayError: as `Collector.completion`.
        """
        complete = collector.completion
        large = collector.beside.large_bytes > _LARGE_BYTES
        completion = await asyncio.to_thread(complete) if large else complete()
        for name in set(self.names) - completion.side_arrays.keys():
            metrics.missing_arrays.labels(array=name, engine=engine).inc()
            if (name, engine) not in self._warned:
                self._warned.add((name, engine))
                log.warning("an engine sends no such side array: rows have null for it", array=name, engine=engine)
        return completion
