"""Many random turns through one process, each compared with the naive record: ``python -m bench.soak --turns 100000``.

Sessions are of all sizes up to `--session` turns and are dropped when they are over, so that memory must
stay level. Prints one line of figures; exit code 1 when an invariant broke, or memory grew with the turns.
"""

import argparse
import resource
import sys
import time
import traceback
from random import Random

from tests.core.agents import Agents
from tests.core.invariants import audit

MOVES = (
    Agents.start,
    *[Agents.extend] * 4,
    *[Agents.rewrite] * 3,
    Agents.resample,
    Agents.falsify,
    Agents.inject,
    Agents.change_above,
    Agents.misrender,
    Agents.abort,
    Agents.abandon,
    Agents.crowd,
)
ALLOWED_GROWTH_MIB = 32
"""Over the last three quarters of the turns; the allocator keeps some."""


def session(seed: int, longest: int, left: int) -> int:
    """One session; returns how many turns it recorded.

    Raises:
        AssertionError: an invariant broke.
    """
    rng, agents = Random(seed), Agents()
    wanted = min(left, rng.choice([longest // 20, longest // 5, longest]))
    while len(agents.samples) < wanted:
        rng.choice(MOVES)(agents, rng)
        audit(agents.ledger, agents.samples)
    return len(agents.samples)


def peak_mib() -> float:
    """The most memory that this process ever held."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> int:
    """Run sessions until the turns are done; report each break by the seed that shows it again."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=100_000)
    parser.add_argument("--session", type=int, default=200, help="turns in the longest sessions")
    parser.add_argument("--seed", type=int, default=0, help="of the first session; each further one counts on")
    options = parser.parse_args()
    started_s, turns, sessions, breaks, early_mib = time.monotonic(), 0, 0, 0, 0.0
    while turns < options.turns:
        try:
            turns += session(options.seed + sessions, options.session, options.turns - turns)
        except AssertionError:
            breaks += 1
            print(f"invariant broken in the session of seed {options.seed + sessions}", file=sys.stderr)
            traceback.print_exc(limit=-2)
            if breaks >= 10:
                break
        sessions += 1
        if turns < options.turns / 4 or not early_mib:
            early_mib = peak_mib()
    grown_mib = peak_mib() - early_mib
    print(
        f"turns={turns} sessions={sessions} seconds={time.monotonic() - started_s:.0f} "
        f"invariant_breaks={breaks} peak_mib={peak_mib():.0f} grown_mib={grown_mib:.0f}"
    )
    return int(breaks > 0 or grown_mib > ALLOWED_GROWTH_MIB)


if __name__ == "__main__":
    sys.exit(main())
