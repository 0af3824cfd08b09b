"""Policy versions in their order, by which staleness counts."""

from collections.abc import Iterable

from gateway.core.types import UNKNOWN_VERSION, VersionSpan


class Versions:
    """The policy versions of this gateway, in the order in which it first saw them.

    `unknown` is none of them: nobody can say how old it is. Mutable: it grows at its end, by a name for each policy.
    """

    def __init__(self) -> None:
        self._known: dict[str, None] = {}

    def __len__(self) -> int:
        return len(self._known)

    def note(self, spans: Iterable[VersionSpan]) -> None:
        """These versions sampled something."""
        self._known |= dict.fromkeys(span.version for span in spans if span.version != UNKNOWN_VERSION)

    def fresh(self, max_staleness: int | None, count: int | None = None) -> frozenset[str] | None:
        """Versions no more than `max_staleness` older than the newest, when `count` were known, or now.

        ``None`` where age does not matter.
        """
        if max_staleness is None:
            return None
        known = list(self._known)[:count]
        return frozenset(known[max(len(known) - 1 - max_staleness, 0) :])
