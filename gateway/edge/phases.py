"""How long the steps of one call take."""

from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter

from gateway.edge.metric_table import Phase
from gateway.edge.metrics import Metrics


class Phases:
    """The steps of one call that it takes one after another; those of one name count together."""

    def __init__(self) -> None:
        self._took_s: dict[Phase, float] = {}

    @contextmanager
    def timed(self, phase: Phase) -> Iterator[None]:
        """Count the time of the block to a step, however it ends."""
        began_s = perf_counter()
        try:
            yield
        finally:
            self._took_s[phase] = self._took_s.get(phase, 0.0) + perf_counter() - began_s

    def tell(self, metrics: Metrics) -> None:
        """Have them counted, each step once."""
        for phase, seconds in self._took_s.items():
            metrics.took(phase, seconds)
