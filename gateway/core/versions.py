"""Policy versions in their order, by which staleness counts."""

from collections.abc import Iterable

from gateway.core.types import UNKNOWN_VERSION, VersionSpan


class Versions:
    """The policy versions of this gateway, the oldest first.

    A new one is the newest, unless a completion shows it before one that is known: a long turn of the policy before
    may be the first to show that one, and be recorded when turns of the next have been. Two that are known keep their
    order, so that what is read of one moment stays of one order. Where nothing but completions tells of them, this is
    all that there is to go by; `/admin/policy`, by which they are announced, will set the order.

    `unknown` is none of them: nobody can say how old it is. Mutable: it grows, by a name for each policy.
    """

    def __init__(self) -> None:
        self._seen: list[str] = []
        self._aged: list[str] = []
        # The same by age, from the oldest on.

    def __len__(self) -> int:
        return len(self._seen)

    def note(self, spans: Iterable[VersionSpan]) -> None:
        """These versions sampled one completion, in this order."""
        following: str | None = None
        for name in reversed(dict.fromkeys(span.version for span in spans if span.version != UNKNOWN_VERSION)):
            if name not in self._aged:
                self._aged.insert(len(self._aged) if following is None else self._aged.index(following), name)
                self._seen.append(name)
            following = name

    def fresh(self, max_staleness: int | None, count: int | None = None) -> frozenset[str] | None:
        """Versions no more than `max_staleness` older than the newest, when `count` were known, or now.

        ``None`` where age does not matter.
        """
        if max_staleness is None:
            return None
        seen = set(self._seen[:count])
        known = [name for name in self._aged if name in seen]
        return frozenset(known[max(len(known) - 1 - max_staleness, 0) :])
