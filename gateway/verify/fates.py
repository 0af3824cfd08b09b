"""What became of turns, as far as other turns of the file tell: what goes on from one shows that it arrived."""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from gateway.verify.mismatch import Json, Mismatch
from gateway.verify.row import Row

_ASKED: Mapping[str, Callable[[Json], bool]] = {
    "stale": lambda selection: selection["max_staleness"] is not None,
    "dropped": lambda selection: selection["dropped"] == "exclude",
    "distribution": lambda selection: selection["distribution"] is not None,
    "leaf": lambda selection: selection["leaves"] == "latest",
    "aborted": lambda selection: "aborted" not in selection["include"],
}
"""Whether a selection leaves turns out for a reason, of those that not every one has."""

_REASONS = ("train_false", "undelivered", "dropped", "distribution", "stale", "aborted", "leaf")
"""Why a turn may be excluded."""

_ENDS = ("undelivered", "dropped")
"""Reasons that no turn has from which another goes on."""


@dataclass(frozen=True, slots=True)
class _Claim:
    """What a row says of a turn, where what goes on from it may say otherwise."""

    row: int
    row_id: str
    session_id: str
    at: str
    value: object

    def mismatch(self, turn_id: str, expected: str) -> Mismatch:
        return Mismatch(self.at, expected, self.value, turn_id=turn_id, row=self.row, row_id=self.row_id)


class Fates:
    """The rows so far: which turns are gone on from, and of which ones that is denied or must be so."""

    def __init__(self) -> None:
        self._selections: dict[str, Json] = {}
        """Of each session."""
        self._turns: set[str] = set()
        self._next: dict[str, str] = {}
        """By the id of a turn, that of one that goes on from it."""
        self._ended: dict[str, _Claim] = {}
        """Turns from which nothing goes on, as a row says."""
        self._lost: dict[str, _Claim] = {}
        """Turns that are trained though they never arrived."""

    def add(self, number: int, row: Row) -> None:
        """Take the next row of the file."""
        session_id = row.said["session_id"]
        self._selections[session_id] = row.selection
        for turn in row.turns:
            said = turn.said
            self._turns.add(turn.id)
            if said["parent_id"] is not None:
                self._next[said["parent_id"]] = turn.id
            if said["masked_because"] == "undelivered":
                claims, field = self._ended, "masked_because"
            elif said["dropped_by_harness"]:
                claims, field = self._ended, "dropped_by_harness"
            elif said["delivered"] is False and said["trained"]:
                claims, field = self._lost, "trained"
            else:
                continue
            claims.setdefault(turn.id, _Claim(number, row.id, session_id, turn.at(field), said[field]))

    def check_ended(self) -> None:
        """Hold turns that are said to lead nowhere to those that go on.

        Raises:
            Mismatch: one goes on from such a turn.
        """
        for turn_id, claim in self._ended.items():
            if turn_id in self._next:
                wanted = f"something else, since the turn {self._next[turn_id]} goes on from it"
                raise claim.mismatch(turn_id, wanted)

    def check_excluded(self, excluded: list[Json], at: str) -> None:
        """Hold the reasons to exclude to what was asked for, and to what goes on.

        Raises:
            Mismatch: the selection of the session leaves nothing out for such a reason, or the turn is gone on from.
        """
        for place, told in enumerate(excluded):
            selection, reason, turn_id = self._selections.get(told["session_id"]), told["reason"], told["turn_id"]
            wanted = None
            if reason not in _REASONS:
                wanted = f"one of {', '.join(_REASONS)}"
            elif selection is not None and reason in _ASKED and not _ASKED[reason](selection):
                wanted = "a reason that the selection of the session's rows admits"
            elif reason in _ENDS and turn_id in self._next:
                wanted = f"another reason, since the turn {self._next[turn_id]} goes on from it"
            if wanted:
                raise Mismatch(f"{at}[{place}].reason", wanted, reason, turn_id=turn_id)

    def check_lost(self, excluded: list[Json]) -> None:
        """Hold trained turns that never arrived to what goes on: in rows, or as one of the turns that no row holds.

        Raises:
            Mismatch: nothing goes on from such a turn.
        """
        elsewhere = Counter(told["session_id"] for told in excluded if told["turn_id"] not in self._turns)
        for turn_id, claim in self._lost.items():
            if turn_id in self._next:
                continue
            elsewhere[claim.session_id] -= 1  # each goes on from one at most
            if elsewhere[claim.session_id] < 0:
                wanted = "an untrained turn, since it was not delivered and nothing goes on from it"
                raise claim.mismatch(turn_id, wanted)
