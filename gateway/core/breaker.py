"""That one slow minute never becomes a storm: how many failed answers are carried on, and when silence is failure."""

from collections import deque

_WINDOW_S = 60.0
_FEW = 4
"""Stalls in a window that are no sign of anything, however few turns there are."""
_SHARE = 4
"""Of the turns in flight within a window one of so many may stall."""


class ResumeBudget:
    """How soon an answer that failed may be carried on: at once up to `burst` of them, and then at a rate.

    A token bucket. Those beyond it wait, in order. Mutable; the clock is the caller's.
    """

    def __init__(self, rate_per_s: float = 64.0, burst: int = 256) -> None:
        # An engine that dies with a thousand turns has them all elsewhere within twelve seconds.
        self._interval_s = 1 / rate_per_s
        self._ahead_s = burst / rate_per_s
        self._paid_until_s = float("-inf")

    def take(self, now_s: float) -> float:
        """Take the next token; how long to wait until it is there."""
        self._paid_until_s = max(self._paid_until_s, now_s - self._ahead_s) + self._interval_s
        return max(0.0, self._paid_until_s - now_s)


class Breaker:
    """Whether stalls may be told: not for a minute, once more than a quarter of the turns in flight within a minute
    had stalled, since then it is not the engines that are dead, but everything that is slow.

    Mutable; the clock is the caller's.
    """

    def __init__(self) -> None:
        self._ended: deque[float] = deque()
        self._stalls: deque[float] = deque()
        self._off_until_s = float("-inf")

    def ended(self, now_s: float) -> None:
        """A call has ended."""
        self._ended.append(now_s)
        _forget(self._ended, now_s)

    def stalled(self, now_s: float, in_flight: int) -> bool:
        """A call seems to have stalled, one of those `in_flight`; whether it is to be taken for that."""
        if now_s < self._off_until_s:
            return False
        self._stalls.append(now_s)
        _forget(self._stalls, now_s)
        _forget(self._ended, now_s)
        if len(self._stalls) > max(_FEW, (in_flight + len(self._ended)) // _SHARE):
            self._off_until_s = now_s + _WINDOW_S
            return False
        return True


def _forget(moments: deque[float], now_s: float) -> None:
    while moments and moments[0] <= now_s - _WINDOW_S:
        moments.popleft()
