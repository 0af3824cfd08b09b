"""Which turns a trainer wants to train on, and why one is left out."""

from dataclasses import dataclass
from typing import Literal

from gateway.core.fate import Fate
from gateway.core.sampling import Distribution
from gateway.core.turn import Turn
from gateway.core.types import JsonObject

Leaves = Literal["all", "latest"]
Dropped = Literal["include", "exclude"]
Shared = Literal["once", "split", "duplicate"]

Masked = Literal["earlier_row", "train_false", "undelivered", "dropped", "distribution", "stale"]
"""Why a turn is context in a row; `docs/rows.md` says what each means."""
ExcludedBecause = Masked | Literal["aborted", "leaf"]
"""Why no row trains a turn; never `earlier_row`."""


@dataclass(frozen=True, slots=True)
class Selection:
    """What is to be trained on; by default, all that a client got."""

    leaves: Leaves = "all"
    """All rows, or of each session the one whose last turn was recorded last."""
    include_aborted: bool = False
    """Whether there are rows that end in an aborted turn."""
    dropped: Dropped = "include"
    """Whether to train on what was delivered and then dropped by the harness."""
    distributions: frozenset[Distribution] | None = None
    """Train on turns that were sampled from one of these; ``None`` for all."""
    max_staleness: int | None = None
    """Ids of policy versions that are older than that many versions are masked; ``None`` for none."""
    shared: Shared = "once"
    """Who trains a turn that stands in several rows: the first of them, all with a part of its weight, or all."""

    def why_not(self, turn: Turn, fate: Fate) -> Masked | None:
        """Why a turn is not to be trained at all, whatever its age; ``None`` if it is."""
        if not turn.labels.train:
            return "train_false"
        if fate.delivered is False and not fate.continued:
            return "undelivered"
        if self.dropped == "exclude" and fate.dropped:
            return "dropped"
        if self.distributions is not None and turn.sampling.distribution not in self.distributions:
            return "distribution"
        return None

    def told(self) -> JsonObject:
        """The selection in the words in which it is asked for."""
        return {
            "leaves": self.leaves,
            "include": ["aborted"] if self.include_aborted else [],
            "dropped": self.dropped,
            "distribution": None if self.distributions is None else sorted(self.distributions),
            "max_staleness": self.max_staleness,
            "shared": self.shared,
        }
