"""How much is asked of the gateway in the trial of its engines, and what came of it."""

from collections import Counter
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Plan:
    """How much is asked of the gateway."""

    disorders: int
    clients: int = 64
    engines: int = 3
    turns: int = 4
    """Of each session."""
    token_delay_s: float = 0.008
    rest_s: float = 0.1
    """Between one disorder and the next, at most twice as long."""
    limit_s: float = 90.0
    seed: int = 0


@dataclass(slots=True)
class Figures:
    """What happened."""

    answers: int = 0
    happened: Counter[str] = field(default_factory=Counter)
    """Disorders that struck a call of an agent, by their kind."""
    cuts: Counter[str] = field(default_factory=Counter)
    """Cuts in turns, by their reason."""
    kept: int = 0
    """Of those, how many went on with what the rank had cached."""
    turns: int = 0
    cut_turns: int = 0
    aborted: int = 0
    slowest_s: float = 0.0
    took_s: float = 0.0
    seen: list[str] = field(default_factory=list)
    """Failures that agents saw."""
    faults: list[str] = field(default_factory=list)
    """What must not be otherwise."""

    def line(self) -> str:
        """All on one line."""
        happened = " ".join(f"{kind}={count}" for kind, count in sorted(self.happened.items()))
        cuts = " ".join(f"{reason}={count}" for reason, count in sorted(self.cuts.items()))
        return (
            f"disorders={self.happened.total()} ({happened}) cuts={self.cuts.total()} ({cuts}) kv_kept={self.kept} "
            f"answers={self.answers} turns={self.turns} turns_cut={self.cut_turns} turns_aborted={self.aborted} "
            f"slowest_s={self.slowest_s:.1f} took_s={self.took_s:.1f} failures_seen={len(self.seen)} "
            f"faults={len(self.faults)}"
        )
