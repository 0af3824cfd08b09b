"""Which rank takes a turn."""

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Literal

_TOKENS_OF_A_TURN = 8192
"""So many tokens, queued or resident, weigh as much as a turn in flight."""
MoveReason = Literal["removed", "draining", "down", "overloaded", "demanded"]
"""Why a session goes to another rank: `demanded` by the call, which its own does not suit."""


@dataclass(slots=True, eq=False)
class Affinity:
    """Where a session's prefix is cached. Mutable: the pool writes it."""

    session_id: str
    rank: str | None = None
    """The rank that the session is pinned to, by its name; ``None`` before its first turn."""
    resident_tokens: int = 0
    """Length of its longest recent context there, which is the KV that it takes up, and that a move prefills again."""
    in_flight: int = 0
    """Its turns that hold or wait for a rank."""
    longest_s: float = 0.0
    """When the context of `resident_tokens` was last had."""
    cached_at: int = 0
    """How many losses of cache the pool had counted when a turn of it last ended."""
    over: bool = False
    """Whether the session is known not to come back."""
    shuns: str | None = None
    """The rank that failed its last call: others come before it while there are."""
    left: tuple[str, MoveReason, int] | None = None
    """The rank that it was on, why it left, and what it had cached there, until a turn has gone to another."""


@dataclass(frozen=True, slots=True)
class Demand:
    """What one call to an engine asks of the pool."""

    prompt_tokens: int
    remaining_tokens: int = 0
    """How many ids it may yet sample: after a pause the shortest go first."""
    model: str | None = None
    rank_number: int | None = None
    """The data-parallel rank that the caller itself insists on."""
    new_session: bool = False
    """Whether the session has no turn yet: such may be held back for those that have."""
    resumes: bool = False
    """Whether it carries on an answer that was cut: it waits for an engine to come back, where a new one is refused."""
    awaits_engine: bool = False
    """Whether a call that begins an answer waits, too, for an engine that has answered before and is away now."""
    waited_s: float = 0.0
    """How much of the time that it may wait has been used up already."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """How much a rank is given at once, and who waits how long; the settings of these names."""

    rank_turns: int = 1024
    rank_prefill_tokens: int = 262_144
    queue_turns: int = 4096
    queue_wait_s: float = 600.0
    resident_share: float | None = None
    resident_idle_s: float = 300.0
    resume_timeout_s: float = 600.0
    health_interval_s: float = 5.0

    @property
    def most_choices(self) -> int:
        """So many calls of a session can have or wait for its rank at once: more would be refused for ever."""
        return self.rank_turns + self.queue_turns


@dataclass(frozen=True, slots=True)
class RankLoad:
    """How much a rank that takes turns has to do."""

    name: str
    in_flight: int = 0
    """Turns, whoever sent them, where the engine says so."""
    queued_tokens: int = 0
    """Prompt tokens that wait for it."""
    resident_tokens: int = 0
    """What the sessions there take up in its KV cache, idle ones too."""
    overloaded: bool = False
    """Whether more waits there than it works at."""
    suspect: bool = False
    """Whether a turn has just failed there."""

    @property
    def load(self) -> int:
        """All of it, in turns."""
        return self.in_flight + (self.queued_tokens + self.resident_tokens) // _TOKENS_OF_A_TURN


def pick(ranks: Sequence[RankLoad], pinned: str | None, session: str) -> str | None:
    """Choose one of `ranks`, all of which take turns; ``None`` when there are none.

    The pinned rank wins, since its cache holds the session's prefix, unless it is overloaded and another that is
    neither overloaded nor suspect has less than half its load. Otherwise the least loaded rank wins, overloaded ones
    after others, and suspect ones after all. Ties go to the rank that is nearest to the session by hash, so that a
    restarted gateway, or a second one, chooses alike (rendezvous hashing).
    """
    home = next((rank for rank in ranks if rank.name == pinned), None)
    if home is not None and not (home.overloaded and any(_relieves(rank, home) for rank in ranks)):
        return home.name
    weights = [(rank.suspect, rank.overloaded, rank.load) for rank in ranks]
    least = min(weights, default=None)
    equal = [rank.name for rank, weight in zip(ranks, weights, strict=True) if weight == least]
    return min(equal, key=lambda name: _distance(session, name), default=None)


def _relieves(rank: RankLoad, home: RankLoad) -> bool:
    return not (rank.overloaded or rank.suspect) and 2 * rank.load < home.load


def _distance(session: str, rank: str) -> bytes:
    return blake2b(session.encode("utf-8", "surrogatepass"), key=rank.encode()[-64:], digest_size=8).digest()
