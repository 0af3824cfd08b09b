"""What a metric is: its name, its type, and the closed set of values that each of its labels may have."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Literal

Kind = Literal["counter", "gauge", "histogram"]
Values = tuple[str, ...]

OTHER = "other"
"""What any value becomes that its label's set does not hold."""


@dataclass(frozen=True, slots=True)
class Family:
    """One metric, and what is said of it wherever it is described."""

    name: str
    """As Prometheus has it; a counter's ends in ``_total``."""
    kind: Kind
    unit: str
    """What one of it is."""
    help: str
    look: str
    """What to look at it for."""
    labels: Mapping[str, Values | None] = field(default_factory=dict)
    """Each label's closed set; ``None`` where there is one value for each engine or rank that is there."""
    pairs: Sequence[Values] | None = None
    """Which combinations there are; ``None`` is all of them."""
    bounds: tuple[float, ...] = ()
    """Upper bounds of a histogram's buckets, but for the last, which has none."""

    @property
    def is_closed(self) -> bool:
        """Whether what it can say is known from the start, so that each of its series begins at zero."""
        return None not in self.labels.values()

    def combinations(self) -> list[Values]:
        """Each of the label values that it begins with; of what has no labels, the empty one."""
        if self.pairs is not None:
            return list(self.pairs)
        return list(product(*(values for values in self.labels.values() if values is not None)))

    def bounded(self, values: Values) -> Values:
        """These values, `OTHER` where a label's set does not hold one."""
        sets = self.labels.values()
        pairs = zip(values, sets, strict=True)
        return tuple(value if known is None or value in known else OTHER for value, known in pairs)
