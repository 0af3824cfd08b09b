"""How the metrics of the table are counted, and how they are shown when they are read."""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

from gateway.edge.metric_family import Family, Values

Samples = Callable[[], Iterable[tuple[Sequence[str], float]]]
"""What is so now: the label values of each series with its value."""


class Counted:
    """A counter, each of whose series begins at zero where its labels are closed, and that grows no other ones."""

    def __init__(self, family: Family, registry: CollectorRegistry) -> None:
        self._family = family
        self._counter = Counter(family.name, family.help, list(family.labels), registry=registry)
        begun = family.combinations() if family.labels and family.is_closed else []
        self._series = {values: self._counter.labels(*values) for values in begun}

    def inc(self, *values: str, by: float = 1) -> None:
        """Count `by` more of what has these label values, in their order in the table."""
        series = self._series.get(values)
        if series is None:
            series = self._counter.labels(*self._family.bounded(values)) if values else self._counter
        series.inc(by)

    def begin(self, *values: str) -> None:
        """Have a series whose labels are not closed."""
        self._counter.labels(*self._family.bounded(values))

    def forget(self, **labels: str) -> None:
        """Have no series with these values any more."""
        self._counter.remove_by_labels(labels)


class Timed:
    """A histogram of seconds, with at most one label."""

    def __init__(self, family: Family, registry: CollectorRegistry) -> None:
        labels = list(family.labels)
        histogram = Histogram(family.name, family.help, labels, buckets=family.bounds, registry=registry)
        self._series = {values: histogram.labels(*values) if values else histogram for values in family.combinations()}

    def observe(self, seconds: float, *values: str) -> None:
        """One of so many seconds."""
        self._series[values].observe(seconds)


class Weighted(Collector):
    """A histogram that takes many equal observations at the cost of one, as an event of an engine brings many ids.

    The library's own would be asked once an id, at a microsecond each.
    """

    def __init__(self, family: Family) -> None:
        self._family = family
        self._counts = [0] * (len(family.bounds) + 1)
        self._sum = 0.0

    def observe(self, value: float, count: int) -> None:
        """`count` observations of `value`."""
        self._counts[bisect_left(self._family.bounds, value)] += count
        self._sum += value * count

    def collect(self) -> Iterator[HistogramMetricFamily]:
        """All buckets, each with those below it."""
        bounds = [*map(floatToGoString, self._family.bounds), "+Inf"]
        buckets = list(zip(bounds, map(float, accumulate(self._counts)), strict=True))
        family = HistogramMetricFamily(self._family.name, self._family.help)
        family.add_metric([], buckets, self._sum)
        yield family


class Shown(Collector):
    """A counter or gauge whose values are kept elsewhere, and looked up when they are read."""

    def __init__(self, family: Family, samples: Samples) -> None:
        self._family, self._samples = family, samples

    def collect(self) -> Iterator[Metric]:
        """What is so now."""
        shown, labels = self._family, list(self._family.labels)
        family: CounterMetricFamily | GaugeMetricFamily = (
            CounterMetricFamily(shown.name, shown.help, labels=labels)
            if shown.kind == "counter"
            else GaugeMetricFamily(shown.name, shown.help, labels=labels)
        )
        for values, value in self._samples():
            family.add_metric(values, value)
        yield family


class Bare(Collector):
    """A registry without the times at which its counters were made, which would be a series for each."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry

    def collect(self) -> Iterator[Metric]:
        """What the registry collects."""
        for metric in self._registry.collect():
            metric.samples = [sample for sample in metric.samples if not sample.name.endswith("_created")]
            yield metric


def alone(value: Callable[[], float]) -> Samples:
    """The one value of a metric without labels."""
    return lambda: [((), value())]


def of_each(counts: Callable[[], dict[str, int]]) -> Samples:
    """The values of a metric with one label."""

    def samples() -> list[tuple[Values, float]]:
        return [((label,), count) for label, count in counts().items()]

    return samples
