"""How far two sets of logprobs of the same ids lie apart."""

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace

_MOST_NATS = 700.0
"""Beyond it the exponential is no float any more."""


@dataclass(frozen=True, slots=True)
class Gap:
    """The difference between logprobs of sampled ids and those of the same ids scored later, over any number of ids.

    The divergence from the distribution that sampled to the one that scored is estimated by ``exp(d) - 1 - d``,
    d being a score less its sampled logprob. Its mean is the divergence, as that of ``-d`` is, since the ids were
    sampled from the first; but no id of it is negative, so that small divergences are not lost in noise and large
    gaps of either sign do not cancel.
    """

    tokens: int = 0
    sum_nats: float = 0.0
    max_nats: float = 0.0
    max_at: tuple[str, int] | None = None
    """The row's id and the position in it of the largest; of equal ones the first. ``None`` when there is no gap."""
    sum_kl_nats: float = 0.0

    @property
    def mean_nats(self) -> float | None:
        """Of the absolute differences; ``None`` over no ids."""
        return self.sum_nats / self.tokens if self.tokens else None

    @property
    def kl_nats(self) -> float | None:
        """The estimate for one id; ``None`` over none."""
        return self.sum_kl_nats / self.tokens if self.tokens else None

    def with_others(self, other: "Gap") -> "Gap":
        """That of other ids, too."""
        larger = other if other.max_nats > self.max_nats else self
        return replace(
            larger,
            tokens=self.tokens + other.tokens,
            sum_nats=self.sum_nats + other.sum_nats,
            sum_kl_nats=self.sum_kl_nats + other.sum_kl_nats,
        )


def gap_of(row_id: str, ids: Iterable[tuple[int, float, float]]) -> Gap:
    """The gap of some ids of a row, each given by its position, its sampled logprob and its score."""
    tokens, sum_nats, max_nats, max_at, sum_kl_nats = 0, 0.0, 0.0, None, 0.0
    for position, sampled, scored in ids:
        apart = scored - sampled
        tokens += 1
        nats = abs(apart) if math.isfinite(apart) else math.inf  # what is no number is no gap that is right
        sum_nats += nats
        sum_kl_nats += math.expm1(min(apart, _MOST_NATS)) - apart if nats < math.inf else math.inf
        if nats > max_nats:
            max_nats, max_at = nats, (row_id, position)
    return Gap(tokens, sum_nats, max_nats, max_at, sum_kl_nats)
