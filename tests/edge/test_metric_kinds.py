"""How metrics are counted."""

from itertools import repeat

from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, Histogram, generate_latest

from gateway.edge.metric_family import Family
from gateway.edge.metric_kinds import Counted, Weighted

BOUNDS = (0.001, 0.5, 1.0, 10.0)
FAMILY = Family("gateway_x_seconds", "histogram", "seconds", "Some.", "", bounds=BOUNDS)
values = st.one_of(st.sampled_from([0.0, *BOUNDS]), st.floats(0, 20))


@given(st.lists(st.tuples(values, st.integers(1, 9)), max_size=20))
def test_many_at_once_count_as_the_library_counts_one_after_another(told: list[tuple[float, int]]) -> None:
    """Each bucket and their number; the sum but for rounding."""
    theirs, ours = CollectorRegistry(), CollectorRegistry()
    library, weighted = Histogram(FAMILY.name, FAMILY.help, buckets=BOUNDS, registry=theirs), Weighted(FAMILY)
    ours.register(weighted)
    for value, count in told:
        weighted.observe(value, count)
        for each in repeat(value, count):
            library.observe(each)

    def lines(registry: CollectorRegistry) -> list[str]:
        text = generate_latest(registry).decode().splitlines()
        return [line for line in text if "_sum" not in line and "_created" not in line]

    assert lines(ours) == lines(theirs)
    sums = [registry.get_sample_value(f"{FAMILY.name}_sum") or 0.0 for registry in (ours, theirs)]
    assert abs(sums[0] - sums[1]) < 1e-6


@given(st.text(), st.text())
def test_a_counter_has_no_value_that_its_set_does_not_hold(one: str, another: str) -> None:
    """It counts as other."""
    registry = CollectorRegistry()
    family = Family("gateway_y_total", "counter", "", "Some.", "", {"one": ("a", "b"), "another": ("c",)})
    counted = Counted(family, registry)
    counted.inc(one, another, by=2)
    (shown,) = registry.collect()

    samples = {tuple(s.labels.values()): s.value for s in shown.samples if s.name == family.name}
    known = (one if one in ("a", "b") else "other", another if another == "c" else "other")
    assert samples == {("a", "c"): 0.0, ("b", "c"): 0.0} | {known: 2.0}
