"""Which rank takes a turn."""

from collections.abc import Mapping, Sequence


def pick(ranks: Sequence[str], load: Mapping[str, int], pinned: str | None) -> str | None:
    """Choose one of the healthy `ranks`; ``None`` when there are none.

    The pinned rank wins while it is healthy, since its cache holds the session's prefix. Otherwise the
    least loaded one wins; ties go to the first in order.

    `load` is turns in flight by rank; a missing rank counts as zero.
    """
    if pinned in ranks:
        return pinned
    return min(ranks, key=lambda rank: load.get(rank, 0), default=None)
