"""Which shapes of turns may be bridged by what was proven of others of their shape, and when one is proven anew.

A turn of a shape that nothing is known of is proven by the actual history. So is one in `audit_interval` of those that
follow: a failed audit takes its shape back for good. Nothing here knows what a shape or a proof is.
"""

from collections import Counter, OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass
from threading import Lock
from typing import Generic, Literal, NamedTuple, TypeVar

T = TypeVar("T")

State = Literal["certified", "refused", "revoked"]
"""``refused``: it could not be proven, and is tried again later. ``revoked``: an audit failed, so it never is again."""
Result = Literal["passed", "failed"]
STATES: tuple[State, ...] = ("certified", "refused", "revoked")
RESULTS: tuple[Result, ...] = ("passed", "failed")
AUDIT_INTERVAL = 50
"""One in how many turns of a certified shape is proven by its own history, unless set otherwise."""

_MOST_SHAPES = 2048
"""Clients name tools, and so choose shapes. Revoked ones stay: if they ever fill this, nothing new is certified."""


class Due(NamedTuple, Generic[T]):
    """What a turn may have, as its shape stood when it began."""

    step: Literal["proof", "trust", "nothing"]
    """A proof of its own, trust in that of another, or no bridge."""
    proof: T | None = None
    """What was proven of a certified shape; ``None`` of any other."""


@dataclass(slots=True)
class _Standing(Generic[T]):
    state: State
    proof: T | None
    wait: int
    """How many turns it is until the next proof is due."""
    turns: int = 0
    """Since it was last proven, or tried to."""


class Audits:
    """How many turns were proven by their own history, and how many audits of certified shapes failed.

    Counted from several threads, and for as long as there is one of the `Certifications` that count here.
    """

    def __init__(self) -> None:
        self._counts: Counter[Result] = Counter()
        self._lock = Lock()

    def add(self, result: Result, count: int = 1) -> None:
        """So many more that ended so."""
        with self._lock:
            self._counts[result] += count

    def counts(self) -> dict[Result, int]:
        """How many there were of each result."""
        with self._lock:
            return {result: self._counts[result] for result in RESULTS}


class Certifications(Generic[T]):
    """What was proven of each shape; safe to use from several threads.

    Raises:
        ValueError: `audit_interval` is less than one.
    """

    def __init__(self, audit_interval: int = AUDIT_INTERVAL, *, most_shapes: int = _MOST_SHAPES) -> None:
        if audit_interval < 1:
            raise ValueError(f"one in {audit_interval} turns cannot be audited")
        self.audit_interval = audit_interval
        self._most_shapes = most_shapes
        self._standings: OrderedDict[Hashable, _Standing[T]] = OrderedDict()
        self._audits = Audits()
        self._lock = Lock()

    def count_in(self, audits: Audits) -> None:
        """Count in `audits` from now on, together with others that do; what was counted so far is added there."""
        with self._lock:
            if audits is not self._audits:
                for result, count in self._audits.counts().items():
                    audits.add(result, count)
                self._audits = audits

    def due(self, shape: Hashable) -> Due[T]:
        """What the next turn of `shape` may have; counts the turn.

        A proof that is due stays due until `certify` or `refuse` tells how one went.
        """
        with self._lock:
            standing = self._standings.get(shape)
            if standing is None:
                return Due("nothing" if self._is_full() else "proof")
            self._standings.move_to_end(shape)
            standing.turns += 1
            if standing.state != "revoked" and standing.turns >= standing.wait:
                return Due("proof", standing.proof)
            return Due("trust" if standing.state == "certified" else "nothing", standing.proof)

    def certify(self, shape: Hashable, proof: T) -> None:
        """A turn of `shape` was proven: others may rely on it, unless the shape was revoked meanwhile."""
        with self._lock:
            self._audits.add("passed")
            if not self._is_revoked(shape):
                self._settle(shape, _Standing("certified", proof, self.audit_interval))

    def refuse(self, shape: Hashable, began: Due[T]) -> None:
        """A turn of `shape` was not: if it was certified when the proof `began`, it is revoked; else refused.

        What is refused is tried again at the next turn, then after twice as many each time, up to `audit_interval`:
        the turn that was tried may have been a peculiar one.
        """
        with self._lock:
            if began.proof is not None:
                self._audits.add("failed")
                self._settle(shape, _Standing("revoked", None, 0))
            elif not self._is_revoked(shape):
                known = self._standings.get(shape)
                wait = 2 * known.wait if known and known.state == "refused" else 1
                self._settle(shape, _Standing("refused", None, min(wait, self.audit_interval)))

    def audits(self) -> dict[Result, int]:
        """How the audits ended, those of others that are counted in the same place included."""
        return self._audits.counts()

    def shapes(self) -> dict[State, int]:
        """How many shapes there are of each state."""
        with self._lock:
            found = Counter(standing.state for standing in self._standings.values())
        return {state: found[state] for state in STATES}

    def _is_revoked(self, shape: Hashable) -> bool:
        standing = self._standings.get(shape)
        return standing is not None and standing.state == "revoked"

    def _settle(self, shape: Hashable, standing: _Standing[T]) -> None:
        self._standings[shape] = standing
        self._standings.move_to_end(shape)
        if len(self._standings) > self._most_shapes:
            oldest = next((one for one, known in self._standings.items() if known.state != "revoked"), shape)
            del self._standings[oldest]

    def _is_full(self) -> bool:
        """Whether a shape more would have to take the place of one that was revoked."""
        if len(self._standings) < self._most_shapes:
            return False
        return all(standing.state == "revoked" for standing in self._standings.values())
