"""One row, read: its arrays as numbers, its turns with their places."""

from array import array
from bisect import bisect_right
from dataclasses import dataclass

from gateway.verify.arrays import Numbers, SideArray, read_array, read_side_array
from gateway.verify.mismatch import Json, Mismatch, expect
from gateway.verify.shape import (
    ARRAYS,
    CERTIFICATE,
    CERTIFIED_TURN,
    CUT,
    RENDERER,
    ROW,
    SELECTION,
    SPAN,
    TURN,
    check_object,
)

VERSION = 1
"""Of the certificate, and of the footer."""

LEAVES, DROPPED, SHARED = ("all", "latest"), ("include", "exclude"), ("once", "split", "duplicate")


@dataclass(frozen=True, slots=True)
class Turn:
    """A turn of a row: what the row says of it, and what the certificate says."""

    index: int
    said: Json
    certified: Json
    before: int
    """Where the turn before ends; 0 for the first."""
    start: int
    end: int

    @property
    def id(self) -> str:
        """As text, which it is where the turn is well-formed."""
        return str(self.said["turn_id"])

    def at(self, field: str) -> str:
        """The path of one of its fields."""
        return f"turns[{self.index}].{field}"

    def expect(self, field: str, expected: object) -> None:
        """A field must be what the rest makes of it."""
        expect(self.at(field), expected, self.said[field], turn_id=self.id)

    def mismatch(self, field: str, expected: object) -> Mismatch:
        """That a field is something else."""
        return Mismatch(self.at(field), expected, self.said[field], turn_id=self.id)


@dataclass(frozen=True, slots=True)
class Row:
    """A row whose fields are there and of their kinds."""

    said: Json
    ids: "array[int]"
    mask: "array[int]"
    logprobs: "array[float]"
    weights: "array[float] | None"
    """With ``shared=split`` only."""
    side_arrays: dict[str, SideArray | None]
    turns: list[Turn]

    @property
    def id(self) -> str:
        """The id of its last turn."""
        return str(self.said["row_id"])

    @property
    def arrays(self) -> dict[str, Numbers]:
        """Those that have a number for each id, by name."""
        held: dict[str, Numbers] = {"token_ids": self.ids, "loss_mask": self.mask, "logprobs": self.logprobs}
        return held if self.weights is None else held | {"loss_weights": self.weights}

    @property
    def certificate(self) -> Json:
        """What it is held to."""
        held: Json = self.said["certificate"]
        return held

    @property
    def selection(self) -> Json:
        """How it was chosen."""
        held: Json = self.certificate["selection"]
        return held

    def turn_at(self, position: int) -> Turn:
        """The turn that sampled the id at `position`, or was asked there; the last where none was."""
        place = bisect_right(self.turns, position, key=lambda turn: turn.end)
        return self.turns[min(place, len(self.turns) - 1)]


def read_row(value: object) -> Row:
    """Read what a file has for a row.

    Raises:
        Mismatch: a field is missing, of another kind, or of another length than the row.
    """
    said = check_object(value, "row", {})
    certificate = check_object(said.get("certificate"), "certificate", {})
    expect("certificate.version", VERSION, certificate.get("version"))
    check_object(certificate, "certificate", CERTIFICATE)
    check_object(certificate["renderer"], "certificate.renderer", RENDERER)
    check_object(certificate["arrays"], "certificate.arrays", ARRAYS)
    check_object(said, "", ROW)
    selection = check_object(certificate["selection"], "certificate.selection", SELECTION)
    for name, known in (("leaves", LEAVES), ("dropped", DROPPED), ("shared", SHARED)):
        if selection[name] not in known:
            raise Mismatch(f"certificate.selection.{name}", f"one of {', '.join(known)}", selection[name])
    if selection["include"] not in ([], ["aborted"]):
        raise Mismatch("certificate.selection.include", "nothing or aborted", selection["include"])
    ids = read_array(said["token_ids"], "token_ids", "<u4")
    mask = _alike(said, "loss_mask", "|u1", len(ids))
    logprobs = _alike(said, "logprobs", "<f4", len(ids))
    if (selection["shared"] == "split") != ("loss_weights" in said):
        there = "nothing there" if "loss_weights" not in said else "weights"
        raise Mismatch("loss_weights", "weights with shared=split, and only then", there)
    weights = _alike(said, "loss_weights", "<f4", len(ids)) if "loss_weights" in said else None
    teacher = said.get("teacher_logprobs")
    if isinstance(teacher, list):
        expect("teacher_logprobs", len(ids), len(teacher))
    turns = _turns(said, certificate, len(ids))
    side = {name: read_side_array(held, f"side_arrays.{name}") for name, held in said["side_arrays"].items()}
    return Row(said, ids, mask, logprobs, weights, side, turns)  # type: ignore[arg-type]  # each read with its dtype


def _alike(said: Json, name: str, dtype: str, length: int) -> Numbers:
    values = read_array(said[name], name, dtype)
    if len(values) != length:
        raise Mismatch(name, f"{length} numbers, one for each id", f"{len(values)} numbers")
    return values


def _turns(said: Json, certificate: Json, length: int) -> list[Turn]:
    """The turns, in order, without overlap, up to the row's end."""
    if not said["turns"]:
        raise Mismatch("turns", "at least one turn", "none")
    expect("certificate.turns", len(said["turns"]), len(certificate["turns"]))
    turns: list[Turn] = []
    for index, (told, certified) in enumerate(zip(said["turns"], certificate["turns"], strict=True)):
        check_object(told, f"turns[{index}]", TURN)
        check_object(certified, f"certificate.turns[{index}]", CERTIFIED_TURN)
        for place, span in enumerate(told["policy_versions"]):
            check_object(span, f"turns[{index}].policy_versions[{place}]", SPAN)
        for place, cut in enumerate(told["cuts"]):
            check_object(cut, f"turns[{index}].cuts[{place}]", CUT)
        before = turns[-1].end if turns else 0
        turn = Turn(index, told, certified, before, told["start"], told["end"])
        if turn.start <= before and turns:
            raise turn.mismatch("start", f"a position after {before}, where the turn before ends")
        if not turn.start < turn.end <= length:
            raise turn.mismatch("end", f"a position after {turn.start} and up to {length}")
        turns.append(turn)
    turns[-1].expect("end", length)
    return turns
