"""Where the sessions of a trial were served, and how much of their prompts was computed."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from gateway.sim.ranks import PrefixCache
from gateway.sim.server import Entry

DRAINED = 1
"""The rank that is taken out of service midway."""
BLOCK_TOKENS = 16
_ENDLESS = 1 << 40


@dataclass(slots=True)
class Figures:
    """Who was served where, and what it cost."""

    turns: int = 0
    at_home: int = 0
    """Turns on the rank of their session's first one."""
    prompt_tokens: int = 0
    cached_tokens: int = 0
    prefilled_tokens: int = 0
    oracle_tokens: int = 0
    """What would be prefilled if each session had a rank alone, with room for everything."""
    per_rank: dict[int, int] = field(default_factory=dict)
    """Sessions that began on each."""
    late: int = 0
    """Calls that a drained rank got after it was said to be."""
    homes_drained: int = 0
    """Sessions at home there that had turns left."""
    moves: list[int] = field(default_factory=list)
    """How often each of them moved."""
    moved_others: int = 0
    """How often all others did."""
    counted_moves: float = 0
    """As the gateway counts them."""
    failed: list[str] = field(default_factory=list)
    took_s: float = 0.0

    @property
    def home_share(self) -> float:
        """Of turns."""
        return self.at_home / max(1, self.turns)

    @property
    def prefilled_times(self) -> float:
        """As a multiple of what the oracle prefills."""
        return self.prefilled_tokens / max(1, self.oracle_tokens)

    @property
    def hit_share(self) -> float:
        """Of all prompt tokens."""
        return self.cached_tokens / max(1, self.prompt_tokens)

    @property
    def best_share(self) -> float:
        """The oracle's share of hits, above which there is none."""
        return 1 - self.oracle_tokens / max(1, self.prompt_tokens)

    def line(self) -> str:
        """All on one line."""
        drained = (
            f" late_calls={self.late} sessions_at_drained={self.homes_drained} moves_each={sorted(set(self.moves))} "
            f"moved_others={self.moved_others} moves_counted={self.counted_moves:.0f}"
            if self.homes_drained
            else ""
        )
        return (
            f"turns={self.turns} at_home={self.home_share:.2%} sessions_per_rank={sorted(self.per_rank.values())} "
            f"prompt_tokens={self.prompt_tokens} prefilled_to_oracle={self.prefilled_times:.3f} "
            f"hits={self.hit_share:.1%} best={self.best_share:.1%}{drained} "
            f"failed={len(self.failed)} took_s={self.took_s:.1f}"
        )


def figures_of(journal: Sequence[Entry], drained_at: int | None) -> Figures:
    """What the engine's journal says, whose calls are named by their session and turn; a rank was drained at one of them."""
    figures, calls = Figures(), defaultdict[str, list[Entry]](list)
    for entry in journal:
        assert entry.request_id is not None
        calls[entry.request_id.partition(".")[0]].append(entry)
    after = {id(entry) for entry in journal[drained_at:]} if drained_at is not None else set()
    figures.late = sum(entry.rank == DRAINED and id(entry) in after for entry in journal)
    for entries in calls.values():
        ranks = [entry.rank for entry in entries]
        figures.turns += len(ranks)
        figures.at_home += ranks.count(ranks[0])
        assert ranks[0] is not None
        figures.per_rank[ranks[0]] = figures.per_rank.get(ranks[0], 0) + 1
        moves = sum(before != after for before, after in pairwise(ranks))
        if drained_at is not None and DRAINED in ranks and (moves or id(entries[-1]) in after):
            figures.moves.append(moves)
        else:
            figures.moved_others += moves
        _add_tokens(figures, entries)
    figures.homes_drained = len(figures.moves)
    return figures


def _add_tokens(figures: Figures, entries: Sequence[Entry]) -> None:
    alone = PrefixCache(BLOCK_TOKENS, _ENDLESS)
    for entry in entries:
        prompt: list[int] = list(entry.token_ids)  # type: ignore[call-overload]  # a list, or it would not be answered
        figures.prompt_tokens += len(prompt)
        figures.cached_tokens += entry.cached_tokens
        figures.prefilled_tokens += entry.prefilled_tokens
        figures.oracle_tokens += len(prompt) - alone.match(prompt, None)
        alone.add([*prompt, *entry.emitted[:-1]], None)
