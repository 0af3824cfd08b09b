"""How soon, and how fast, engines sample one answer."""

from time import perf_counter
from typing import Self

from gateway.edge.metrics import Metrics


class Pace:
    """One answer, over the calls of engines that it takes: each is a ``with`` block. `arrived_s` by `perf_counter`."""

    def __init__(self, metrics: Metrics, arrived_s: float) -> None:
        self._metrics = metrics
        self._arrived_s: float | None = arrived_s
        # ``None`` once the answer has its first id.
        self._began_s = 0.0
        self._last_s: float | None = None
        # When the call's last ids came.

    def __enter__(self) -> Self:
        self._began_s, self._last_s = perf_counter(), None
        return self

    def __exit__(self, *_: object) -> None:
        self._metrics.took("engine", perf_counter() - self._began_s)

    def heard(self, ids: int) -> None:
        """So many ids have come."""
        now_s = perf_counter()
        if self._last_s is not None:
            self._metrics.between_tokens.observe((now_s - self._last_s) / ids, ids)
        elif self._arrived_s is not None:
            self._metrics.first_token.observe(now_s - self._arrived_s)
            self._arrived_s = None
        self._last_s = now_s
