"""Side arrays that are wanted and do not come."""

from collections.abc import Sequence

import structlog

from gateway.edge.choice import Sampled
from gateway.edge.metrics import Metrics

log = structlog.get_logger()


def note_missing(names: Sequence[str], sampled: Sampled, metrics: Metrics) -> None:
    """Note which of the arrays `names` an engine left out: no error, but counted, and logged once."""
    engine = sampled.settled.rank.engine
    for name in set(names) - sampled.completion.side_arrays.keys():
        metrics.missing_arrays.inc(name, metrics.engine_labels.of(engine.url))
        if name not in engine.left_out:
            engine.left_out.add(name)
            log.warning("an engine sends no such side array: rows have null for it", array=name, engine=engine.url)
