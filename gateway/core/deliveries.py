"""Which answers reached their clients, as far as the sockets tell."""

from collections.abc import Mapping

from gateway.core.turn import Turn


class Deliveries:
    """What was learnt of a session's answers, in order, so that what was known earlier can be told later.

    Mutable: it grows at its end, by two words a turn at most.
    """

    def __init__(self) -> None:
        self._last: dict[Turn, bool] = {}
        self._all: list[tuple[Turn, bool]] = []

    def __len__(self) -> int:
        return len(self._all)

    def note(self, turn: Turn, *, delivered: bool) -> None:
        """Whether the answer reached its client. What has arrived once has arrived."""
        before = self._last.get(turn)
        if before is None or delivered > before:
            self._last[turn] = delivered
            self._all.append((turn, delivered))

    def of(self, turn: Turn) -> bool | None:
        """What is known of a turn; ``None`` when nothing is yet."""
        return self._last.get(turn)

    def known(self, count: int) -> Mapping[Turn, bool]:
        """What the first `count` words say."""
        return dict(self._all[:count])
