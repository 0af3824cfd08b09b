"""A rank as those see it who wait for it."""

from dataclasses import dataclass, field

from gateway.core.pool import Bounds, RankLoad
from gateway.edge.rank import Rank

_USUAL_QUEUE = 8
"""So many requests may wait in an engine without its being overloaded."""


@dataclass(slots=True, eq=False)
class Place:
    """One rank, what is under way there, and how many wait for it. Mutable: `Places` and `Queues` write it."""

    rank: Rank
    name: str = field(init=False)
    """The rank's."""
    in_flight: int = 0
    """Turns that hold it."""
    prefilling_tokens: int = 0
    """What those of them have to prefill of which nothing was heard."""
    waiting: int = 0
    queued_tokens: int = 0
    """The prompts of those that wait for it."""
    emptied: int = 0
    """The last loss of its cache, by the pool's count."""

    def __post_init__(self) -> None:
        """The name is looked up for each rank whenever one is picked."""
        self.name = self.rank.name

    @property
    def serves(self) -> bool:
        """Whether turns may go there."""
        return self.rank.serves

    @property
    def window(self) -> int | None:
        """The context that it offers, in tokens."""
        return self.rank.engine.max_model_len

    def fits(self, tokens: int, bounds: Bounds) -> bool:
        """Whether a turn with `tokens` to prefill may go there now; a long one goes alone."""
        room = not self.prefilling_tokens or self.prefilling_tokens + tokens <= bounds.rank_prefill_tokens
        return room and self.in_flight < bounds.rank_turns

    def load(self, resident_tokens: int, bounds: Bounds, now_s: float) -> RankLoad:
        """How much it has to do, by our count or the engine's own, whichever is more."""
        gauges, in_flight = self.rank.fresh_gauges(now_s, bounds.health_interval_s), self.in_flight
        overloaded = self.waiting >= bounds.queue_turns and (self.waiting > 0 or in_flight >= bounds.rank_turns)
        if gauges is not None:
            in_flight = max(in_flight, gauges.running + gauges.waiting)
            overloaded = overloaded or gauges.waiting > max(gauges.running, _USUAL_QUEUE)
        suspect = self.rank.health.state == "suspect"
        return RankLoad(self.name, in_flight, self.queued_tokens, resident_tokens, overloaded, suspect)
