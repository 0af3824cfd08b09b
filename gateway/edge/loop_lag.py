"""How late the event loop is."""

import asyncio
from time import perf_counter

from gateway.edge.metrics import Metrics

_SLEEP_S = 0.1


async def watch_lag(metrics: Metrics) -> None:
    """Measure, over and over, by how much a task that sleeps wakes too late; a loop that never ends."""
    while True:
        due_s = perf_counter() + _SLEEP_S
        await asyncio.sleep(_SLEEP_S)
        metrics.loop_lag.observe(max(0.0, perf_counter() - due_s))  # uvloop's timers go by whole milliseconds
