"""One data-parallel rank: what a turn runs on, how it is, and how much it has to do."""

from dataclasses import dataclass, field

from gateway.core.health import Health
from gateway.edge.engine import Engine


@dataclass(frozen=True, slots=True)
class Gauges:
    """What an engine says of one of its ranks, whoever sent the requests."""

    running: int
    waiting: int
    kv_usage: float
    """Share of the KV cache in use; 1 is all of it."""
    prompt_tokens: int
    """Taken in since its start."""
    generation_tokens: int
    """Sampled since its start."""
    at_s: float
    """When it said so, by `time.monotonic`."""


@dataclass(slots=True, eq=False)
class Drained:
    """Which ranks of an engine get no new turns, those too that it has not yet. Mutable: the pool writes it."""

    engine: bool = False
    ranks: dict[int, bool] = field(default_factory=dict)
    """What was said of one rank since."""

    def has(self, number: int) -> bool:
        """Whether a rank is among them."""
        return self.ranks.get(number, self.engine)


@dataclass(slots=True, eq=False)
class Rank:
    """One rank of an engine. Mutable: what is found out of it is written here."""

    engine: Engine
    number: int
    health: Health = field(default_factory=Health)
    draining: bool = False
    """Whether it gets no turns beyond those that it has."""
    gauges: Gauges | None = None
    """What it last said; ``None`` where it says nothing."""
    capacity_tokens: int | None = None
    """How much its KV cache holds; ``None`` where it does not say."""

    @property
    def name(self) -> str:
        """The engine's URL and the rank's number."""
        return f"{self.engine.url}#{self.number}"

    def fresh_gauges(self, now_s: float, interval_s: float) -> Gauges | None:
        """What it last said, if that can be relied on, where the engine is asked every `interval_s`."""
        return self.gauges if self.gauges and now_s - self.gauges.at_s < 2 * interval_s else None

    @property
    def answers(self) -> bool:
        """Whether its engine has answered, and nothing is known by which it could take no turns."""
        return self.health.is_in_service and self.engine.max_model_len is not None

    @property
    def serves(self) -> bool:
        """Whether new turns may go there."""
        return self.answers and not self.draining


@dataclass(frozen=True, slots=True)
class RankCounts:
    """How much there is to do on a rank."""

    in_flight: int
    waiting: int
    resident_tokens: int
    sessions: int
