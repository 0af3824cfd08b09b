"""What must hold between the rows of a file. Of each turn only hashes and a few numbers are remembered."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from gateway.verify.digest import of_json
from gateway.verify.masks import first_trained, parts_of
from gateway.verify.mismatch import Json, Mismatch, expect
from gateway.verify.row import Row, Turn
from gateway.verify.shape import EXCLUDED, check_object

_ARRAYS = ("prompt", "completion", "logprobs", "spans")
"""What a certificate says of a turn's arrays that is the same in every row."""

_VARYING = ("trained", "masked_because", "delivered")
"""What one row may say of a turn, and another not."""

_CHANGING = ("reward", "metadata")
"""What a session is told anew when it is finished again."""


@dataclass(slots=True)
class _Session:
    said: dict[str, str]
    """What its rows say of it, by name, as hashes."""
    row: int
    """The number of its last row in the file."""
    row_index: int


@dataclass(frozen=True, slots=True)
class _Kept:
    """What is kept of a row."""

    number: int
    id: str
    parent_row_id: str | None
    turn_id: str
    """Of its last turn; the others are found through their bases."""


@dataclass(slots=True)
class _Known:
    """What is kept of a turn."""

    session_id: str
    hashes: tuple[str, ...]
    side_arrays: dict[str, str]
    base_id: str | None
    parent_id: str | None
    tokens: int
    fate: str
    """``trained``, or the reason why no row trains it."""
    first: _Kept
    """The first row that holds it, in the file and by its index, since both go up within a session."""
    first_index: int
    trained_at: int | None = None
    """The position of the first id that a row trains, where one does."""
    rows_training: int = 0
    parts: int = 0
    """The k of its weights, with ``shared=split``."""


@dataclass(slots=True)
class _Rollout:
    selection: str
    n_rows: int
    trainable: int
    shared: str
    row: int
    """The number of its first row in the file."""
    rows: dict[int, _Kept] = field(default_factory=dict)
    turns: list[str] = field(default_factory=list)
    stale: dict[str, bool] = field(default_factory=dict)
    """Of each version, whether its ids are masked."""
    trained: int = 0


class Rollouts:
    """The rows so far. Of a `whole` file all rows of each rollout are there; of a page only some are."""

    def __init__(self, *, whole: bool) -> None:
        self._whole = whole
        self._sessions: dict[str, _Session] = {}
        self._rollouts: dict[str, _Rollout] = {}
        self._turns: dict[str, _Known] = {}
        self.changed: Mismatch | None = None
        """The first row of a session that has another reward than one before: pages of two moments may be joined, but
        a file with a footer is of one."""

    @property
    def turns(self) -> int:
        """How many turns there were, each counted once."""
        return len(self._turns)

    @property
    def trained(self) -> int:
        """How many tokens are trained: in all rows that do so or, of weights, once."""
        return sum(rollout.trained for rollout in self._rollouts.values())

    def add(self, number: int, row: Row) -> None:
        """Take the next row of the file.

        Raises:
            Mismatch: it says something else than the rows before.
        """
        said = row.said
        self._check_session(number, row)
        rollout = self._rollout(number, row)
        index = said["row_index"]
        if index in rollout.rows:
            raise Mismatch("row_index", f"another than that of row {rollout.rows[index].number}", index)
        if index >= rollout.n_rows:
            raise Mismatch("row_index", f"a number below {rollout.n_rows}, which is n_rows", index)
        kept = _Kept(number, row.id, said["parent_row_id"], row.turns[-1].id)
        rollout.rows[index] = kept
        for turn in row.turns:
            self._add_turn(rollout, row, turn, kept)
        if len(rollout.rows) == rollout.n_rows:
            self._close(rollout)

    def missing(self) -> Mismatch | None:
        """What is wrong with the first rollout whose rows are not all there, if there is one."""
        for name, rollout in self._rollouts.items():
            if len(rollout.rows) < rollout.n_rows:
                missing = next(index for index in range(rollout.n_rows) if index not in rollout.rows)
                first = next(iter(rollout.rows.values()))
                wanted = f"{rollout.n_rows} rows of the rollout {name}"
                found = f"{len(rollout.rows)} in this file, and none with row_index {missing}"
                return Mismatch("n_rows", wanted, found, row=first.number, row_id=first.id)
        return None

    def check_excluded(self, excluded: Sequence[object], at: str) -> None:
        """Hold what the file says that no row trains to its rows.

        Raises:
            Mismatch: a row trains it, or says something else of it, or one that no row trains is not there.
        """
        seen = set()
        for place, value in enumerate(excluded):
            told = check_object(value, f"{at}[{place}]", EXCLUDED)
            turn_id = told["turn_id"]
            if turn_id in seen:
                raise Mismatch(f"{at}[{place}].turn_id", "each turn once", turn_id, turn_id=turn_id)
            seen.add(turn_id)
            known = self._turns.get(turn_id)
            if known is not None:
                self._check_told(told, known, f"{at}[{place}]")
        for turn_id, known in self._turns.items():
            if known.fate not in ("trained", "earlier_row") and turn_id not in seen:
                raise Mismatch(at, f"the turn {turn_id}, which no row trains", "not there", turn_id=turn_id)

    def _check_told(self, told: Json, known: _Known, at: str) -> None:
        turn_id = told["turn_id"]
        if known.fate in ("trained", "earlier_row"):
            raise Mismatch(
                at, "only turns that no row trains", f"one that row {known.first.number} holds", turn_id=turn_id
            )
        for name, due in (("session_id", known.session_id), ("reason", known.fate), ("tokens", known.tokens)):
            expect(f"{at}.{name}", due, told[name], turn_id=turn_id)

    def _check_session(self, number: int, row: Row) -> None:
        """Its rows say the same of it, and come in order."""
        said = row.said
        facts = {name: of_json(said[name]) for name in ("group_id", "rollout_id", *_CHANGING)}
        session = self._sessions.get(said["session_id"])
        if session is None:
            self._sessions[said["session_id"]] = _Session(facts, number, said["row_index"])
            return
        for name in (name for name, fact in facts.items() if fact != session.said[name]):
            wanted = f"that of row {session.row}, of the same session"
            mismatch = Mismatch(name, wanted, said[name], row=number, row_id=row.id)
            if name not in _CHANGING or not self._whole:
                raise mismatch
            self.changed = self.changed or mismatch
        if row.selection["leaves"] == "latest":
            raise Mismatch("certificate.selection.leaves", "one row of the session", f"row {session.row} is of it, too")
        expect("row_index", session.row_index + 1, said["row_index"])
        session.row, session.row_index = number, said["row_index"]

    def _rollout(self, number: int, row: Row) -> _Rollout:
        said, selection = row.said, row.selection
        chosen = of_json({name: value for name, value in selection.items() if name != "stale_versions"})
        rollout = self._rollouts.get(said["rollout_id"])
        if rollout is None:
            trainable, shared = said["rollout_trainable_tokens"], selection["shared"]
            rollout = _Rollout(chosen, said["n_rows"], trainable, shared, number)
            self._rollouts[said["rollout_id"]] = rollout
        expect("n_rows", rollout.n_rows, said["n_rows"])
        expect("rollout_trainable_tokens", rollout.trainable, said["rollout_trainable_tokens"])
        if rollout.selection != chosen:
            raise Mismatch("certificate.selection", f"that of row {rollout.row}, of the same rollout", selection)
        for version in {span["version"] for span in said["policy_versions"]}:
            stale = version in selection["stale_versions"]
            if rollout.stale.setdefault(version, stale) != stale:
                wanted = f"{version} masked in all rows of the rollout or in none"
                raise Mismatch("certificate.selection.stale_versions", wanted, selection["stale_versions"])
        return rollout

    def _add_turn(self, rollout: _Rollout, row: Row, turn: Turn, kept: _Kept) -> None:
        certified = turn.certified
        index, fate = row.said["row_index"], "trained" if turn.said["trained"] else turn.said["masked_because"]
        told = of_json({name: value for name, value in turn.said.items() if name not in _VARYING})
        hashes = (*(certified[name] for name in _ARRAYS), told)
        sides = {name: held for name, held in certified["side_arrays"].items() if held is not None}
        known = self._turns.get(turn.id)
        if known is None:
            if fate == "earlier_row" and self._whole:
                raise turn.mismatch("masked_because", "a reason that holds, since no earlier row trains the turn")
            links = certified["base_id"], turn.said["parent_id"]
            tokens = turn.end - turn.start
            session_id = row.said["session_id"]
            known = _Known(session_id, hashes, sides, *links, tokens, fate, kept, index)
            self._turns[turn.id] = known
            rollout.turns.append(turn.id)
        else:
            expect("session_id", known.session_id, row.said["session_id"], turn_id=turn.id)
            _check_same(known, turn, hashes, sides)
            _check_fate(known, turn, fate, rollout.shared)
            known.side_arrays |= sides
        if fate == "trained":
            _train(rollout, row, turn, known)

    def _close(self, rollout: _Rollout) -> None:
        """All rows of the rollout are there."""
        first = rollout.rows[0]
        try:
            expect("rollout_trainable_tokens", rollout.trained, rollout.trainable)
        except Mismatch as mismatch:
            raise mismatch.in_row(first.number, first.id) from None
        for turn_id in rollout.turns:
            known = self._turns[turn_id]
            if known.parts and known.parts != known.rows_training:
                wanted = f"the float32 of 1/{known.rows_training}, since {known.rows_training} rows train the turn"
                at, row = f"loss_weights[{known.trained_at}]", known.first
                raise Mismatch(at, wanted, f"that of 1/{known.parts}", turn_id=turn_id, row=row.number, row_id=row.id)
        for index, kept in rollout.rows.items():
            parent = self._parent(index, kept)
            due = parent.first.id if parent else None
            if parent and parent.first_index >= index:
                due = "a row of lower row_index, since turns are continued by later ones"
            if due != kept.parent_row_id:
                raise Mismatch("parent_row_id", due, kept.parent_row_id, row=kept.number, row_id=kept.id)

    def _parent(self, index: int, kept: _Kept) -> _Known | None:
        """The turn which the first new turn of a row continues, where a row holds it."""
        turn: _Known | None = self._turns[kept.turn_id]
        parent_id = None
        while turn is not None and turn.first_index == index:
            parent_id = turn.parent_id
            turn = self._turns[turn.base_id] if turn.base_id else None
        return self._turns.get(parent_id) if parent_id else None


def _check_same(known: _Known, turn: Turn, hashes: tuple[str, ...], sides: dict[str, str]) -> None:
    """A turn is what an earlier row says that it is."""
    names = (*(f"certificate.turns[{turn.index}].{name}" for name in _ARRAYS), f"turns[{turn.index}]")
    for name, due, found in zip(names, known.hashes, hashes, strict=True):
        if due != found:
            wanted = f"what row {known.first.number} says of the same turn, with the hash {due}"
            raise Mismatch(name, wanted, found, turn_id=turn.id)
    for name, found in sides.items():
        if (due := known.side_arrays.get(name, found)) != found:
            wanted = f"what row {known.first.number} says of the same turn, with the hash {due}"
            raise Mismatch(f"certificate.turns[{turn.index}].side_arrays.{name}", wanted, found, turn_id=turn.id)


def _check_fate(known: _Known, turn: Turn, fate: str, shared: str) -> None:
    """Who trains a turn that more than one row holds."""
    if shared == "once" and known.fate in ("trained", "earlier_row"):
        if fate != "earlier_row":
            wanted = f"an untrained turn with earlier_row, since row {known.first.number} trains it"
            raise turn.mismatch("trained" if fate == "trained" else "masked_because", wanted)
    elif fate != known.fate:
        wanted = f"{known.fate}, as in row {known.first.number}"
        raise turn.mismatch("trained" if "trained" in (fate, known.fate) else "masked_because", wanted)


def _train(rollout: _Rollout, row: Row, turn: Turn, known: _Known) -> None:
    """A row trains a turn: count its ids."""
    position = first_trained(row, turn)
    assert position is not None  # or the masks of the row would have been refused
    ids = row.mask[turn.start : turn.end].count(1)
    known.rows_training += 1
    if row.weights is not None:
        parts = parts_of(row.weights[position])
        if known.parts not in (0, parts):
            wanted = f"the float32 of 1/{known.parts}, as in row {known.first.number}"
            raise Mismatch(f"loss_weights[{position}]", wanted, row.weights[position], turn_id=turn.id)
        ids = 0 if known.parts else ids
        known.parts = parts
        if known.rows_training > parts:
            wanted = f"that of 1/{known.rows_training} or less, since as many rows train the turn"
            raise Mismatch(f"loss_weights[{position}]", wanted, row.weights[position], turn_id=turn.id)
    known.trained_at = position
    rollout.trained += ids
    if rollout.trained > rollout.trainable:
        wanted = f"{rollout.trained} or more, which rows of the rollout train up to here"
        raise Mismatch("rollout_trainable_tokens", wanted, rollout.trainable)
