"""Engines that come and go, and calls that are held and let go: what is left over, and what the engines are given.

``python -m tests.herd.trial`` prints a line of figures for each of: a thousand engines that are added and removed under
load, a hundred calls that are held for ten seconds, a pause whose owner never ends it, and two thousand long prompts
that are let go at once. Exit code 1 when one of them is not as it must be.
"""

import asyncio
import sys
import time

from tests.herd import churn, holds

SHORT = holds.Plan(calls=100, prompt_tokens=64, hold_s=10.0)
LEASED = holds.Plan(calls=100, prompt_tokens=64, hold_s=2.0, lease_s=2.0)
LONG = holds.Plan(calls=2000, prompt_tokens=32_000, hold_s=10.0)


def faults_of(figures: holds.Figures, plan: holds.Plan) -> list[str]:
    """What is not as it must be."""
    faults = figures.failed[:5]
    if figures.answered < plan.calls:
        faults.append("not every call was answered")
    if figures.early or figures.released_s < min(plan.hold_s, plan.lease_s or plan.hold_s):
        faults.append("calls came to the engine that were held")
    if figures.released_s > plan.hold_s + 3 and plan.calls <= 100:
        faults.append("calls were held longer than they were to be")
    if plan.calls <= 100 and figures.keep_alives < 2:
        faults.append("a stream was silent for longer than keep_alive_s")
    if max(figures.most_unread) > plan.rank_prefill_tokens:
        faults.append("a rank was given more to prefill than it may be")
    return faults


def main() -> int:
    """Do all four."""
    # First, since the process would have room to grow in after the others.
    began_s = time.monotonic()
    churned = asyncio.run(churn.churned(churn.Plan(changes=1000)))
    wrong = _told("churn", f"took_s={time.monotonic() - began_s:.0f} {churned.line()}", churned.faults)
    for name, plan in {"held": SHORT, "leased": LEASED, "herd": LONG}.items():
        figures = asyncio.run(holds.held(plan))
        wrong |= _told(name, figures.line(), faults_of(figures, plan))
    return int(wrong)


def _told(name: str, line: str, faults: list[str]) -> bool:
    print(f"{name}: {line}", flush=True)
    for fault in faults:
        print(f"{name}: {fault[:1000]}", file=sys.stderr, flush=True)
    return bool(faults)


if __name__ == "__main__":
    sys.exit(main())
