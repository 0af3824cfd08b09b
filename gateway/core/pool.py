"""Which rank takes a turn."""

from collections.abc import Mapping, Sequence
from hashlib import blake2b


def pick(ranks: Sequence[str], load: Mapping[str, int], pinned: str | None, session: str) -> str | None:
    """Choose one of the healthy `ranks`; ``None`` when there are none.

    The pinned rank wins while it is healthy, since its cache holds the session's prefix. Otherwise the
    least loaded one wins. Ties go to the rank whose hash with the session is highest, so that a restarted
    gateway, or a second one, chooses alike (rendezvous hashing).

    `load` is turns in flight by rank; a missing rank counts as zero.
    """
    if pinned in ranks:
        return pinned
    return min(ranks, key=lambda rank: (load.get(rank, 0), _distance(session, rank)), default=None)


def _distance(session: str, rank: str) -> bytes:
    return blake2b(session.encode("utf-8", "surrogatepass"), key=rank.encode()[-64:], digest_size=8).digest()
