"""Side arrays that are wanted and do not come."""

from collections.abc import Sequence

import structlog

from gateway.core.types import Completion
from gateway.edge.engine import Engine
from gateway.edge.metrics import Metrics

log = structlog.get_logger()


def note_missing(names: Sequence[str], completion: Completion, engine: Engine, metrics: Metrics) -> None:
    """Note which of the arrays `names` an engine left out: no error, but counted, and logged once."""
    for name in set(names) - completion.side_arrays.keys():
        metrics.missing_arrays.inc(name, metrics.engine_labels.of(engine.url))
        if name not in engine.left_out:
            engine.left_out.add(name)
            log.warning("an engine sends no such side array: rows have null for it", array=name, engine=engine.url)
