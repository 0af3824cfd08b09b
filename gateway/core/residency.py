"""Whose contexts fill the KV caches of ranks: of sessions with turns in flight, and of such as may come back soon.

An idle session takes up as much of a cache as a busy one, until the engine evicts it; then its next turn prefills all
of it again. A young session will take up more than it does: as much, probably, as others did when they ended. That is
claimed for it while it counts. Times are given by the caller, and never go back. Every step costs O(1) over time.
"""

from dataclasses import dataclass

from gateway.core.pool import Affinity

_RECENT = 32
"""So many sessions that have ended weigh in what is expected of others; older ones less and less."""


@dataclass(slots=True, eq=False)
class Stay:
    """A session on a rank: what a turn of it gives back when it ends."""

    affinity: Affinity
    rank: str
    expected: int
    """What it was thought to come to when it began to count."""
    tokens: int = 0
    claim: int = 0
    """`tokens`, or what is expected while that is more; nothing when it does not count."""
    turns: int = 0
    prompt_tokens: int = 0
    """The longest prompt of those that are in flight."""


class Residency:
    """The sessions that count on each rank: for `idle_s` after their last turn."""

    def __init__(self, idle_s: float) -> None:
        self._idle_s = idle_s
        self._stays: dict[Affinity, Stay] = {}
        self._idle: dict[Affinity, float] = {}
        # When their last turn ended; the oldest first.
        self._tokens: dict[str, int] = {}
        self._claims: dict[str, int] = {}
        self._sessions: dict[str, dict[Affinity, None]] = {}
        self._ended = 0
        # How many sessions the mean is of.
        self._mean_tokens = 0.0

    def __contains__(self, affinity: Affinity) -> bool:
        """Whether a session counts on some rank."""
        return affinity in self._stays

    def tokens(self, rank: str) -> int:
        """What the sessions of a rank take up there."""
        return self._tokens.get(rank, 0)

    def claims(self, rank: str) -> int:
        """What they will probably take up before they end; no less than `tokens`."""
        return self._claims.get(rank, 0)

    def expected(self, prompt_tokens: int) -> int:
        """What a session that begins so will probably come to: the mean of recent ones, if any has ended."""
        return max(prompt_tokens, round(self._mean_tokens))

    def sessions(self, rank: str) -> int:
        """How many count there."""
        return len(self._sessions.get(rank, ()))

    @property
    def next_expiry_s(self) -> float | None:
        """When the first idle session will no longer count; ``None`` where none is idle."""
        oldest_s = next(iter(self._idle.values()), None)
        return None if oldest_s is None else oldest_s + self._idle_s

    def expire(self, now_s: float) -> None:
        """Those that have been idle for long do not count any more."""
        while self._idle and next(iter(self._idle.values())) + self._idle_s <= now_s:
            self._remove(next(iter(self._idle)))

    def enter(self, affinity: Affinity, rank: str, prompt_tokens: int) -> Stay:
        """A turn begins on a rank, which is the session's from now on."""
        if affinity.rank != rank:
            affinity.rank, affinity.resident_tokens = rank, 0
        stay = self._stays.get(affinity)
        if stay is None:
            stay = self._stays[affinity] = Stay(affinity, rank, self.expected(prompt_tokens))
        elif stay.rank != rank:
            self._depart(stay)
            stay.rank = rank
        self._sessions.setdefault(rank, {})[affinity] = None
        self._idle.pop(affinity, None)
        stay.prompt_tokens = max(stay.prompt_tokens if stay.turns else 0, prompt_tokens)
        stay.turns += 1
        self._resize(stay, max(stay.tokens, affinity.resident_tokens, prompt_tokens))
        return stay

    def cached(self, affinity: Affinity, tokens: int, now_s: float) -> None:
        """A context of `tokens` is cached on the session's rank: a longer one counts as long as it is recent."""
        if tokens >= affinity.resident_tokens or affinity.longest_s + self._idle_s <= now_s:
            affinity.resident_tokens, affinity.longest_s = tokens, now_s

    def leave(self, stay: Stay, now_s: float) -> None:
        """A turn that had entered has ended, well or not."""
        affinity = stay.affinity
        stay.turns -= 1
        if stay.turns or self._stays.get(affinity) is not stay:
            return  # or its rank was removed
        if affinity.over or not affinity.resident_tokens:
            self._remove(affinity)
        else:
            self._resize(stay, affinity.resident_tokens)
            self._idle[affinity] = now_s

    def forget(self, affinity: Affinity) -> None:
        """The session will not come back; what it has in flight still counts. May be repeated."""
        if not affinity.over and affinity.resident_tokens:
            self._ended = min(self._ended + 1, _RECENT)
            self._mean_tokens += (affinity.resident_tokens - self._mean_tokens) / self._ended
        affinity.over = True
        stay = self._stays.get(affinity)
        if stay is None or not stay.turns:
            self._remove(affinity)

    def lose(self, rank: str) -> None:
        """A rank's cache is empty: idle sessions count no more, others with what their turns have brought there."""
        for affinity in list(self._sessions.get(rank, ())):
            stay = self._stays[affinity]
            affinity.resident_tokens = 0
            if stay.turns:
                self._resize(stay, stay.prompt_tokens)
            else:
                self._remove(affinity)

    def empty(self, rank: str) -> None:
        """Nobody is on a rank any more."""
        for affinity in list(self._sessions.get(rank, ())):
            self._remove(affinity)

    def _remove(self, affinity: Affinity) -> None:
        self._idle.pop(affinity, None)
        if stay := self._stays.pop(affinity, None):
            self._depart(stay)

    def _depart(self, stay: Stay) -> None:
        self._count(stay, 0, 0)
        del self._sessions[stay.rank][stay.affinity]
        if not self._sessions[stay.rank]:
            del self._sessions[stay.rank], self._tokens[stay.rank], self._claims[stay.rank]

    def _resize(self, stay: Stay, tokens: int) -> None:
        self._count(stay, tokens, max(tokens, stay.expected))

    def _count(self, stay: Stay, tokens: int, claim: int) -> None:
        self._tokens[stay.rank] = self._tokens.get(stay.rank, 0) + tokens - stay.tokens
        self._claims[stay.rank] = self._claims.get(stay.rank, 0) + claim - stay.claim
        stay.tokens, stay.claim = tokens, claim
