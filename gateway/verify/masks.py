"""Which ids a row trains, and what stands beside those that nothing sampled: no hash is needed to name a position."""

from array import array
from math import isfinite

from gateway.verify.arrays import Numbers, SideArray
from gateway.verify.mismatch import Mismatch, expect
from gateway.verify.row import Row, Turn


def check_masks(row: Row) -> None:
    """Hold mask, logprobs, weights and side arrays to the turns, position by position.

    Raises:
        Mismatch: a position has another number than the turns make of it.
    """
    _check_staleness(row)
    for turn in row.turns:
        _check_reason(row, turn)
    mask, sampled = array("B", bytes(len(row.ids))), bytearray(len(row.ids))
    for turn in row.turns:
        sampled[turn.start : turn.end] = b"\1" * (turn.end - turn.start)
        if turn.said["trained"]:
            mask[turn.start : turn.end] = _fresh(row, turn)
    _compare(row, "loss_mask", mask, row.mask)
    for position, (value, was_sampled) in enumerate(zip(row.logprobs, sampled, strict=True)):
        if value != 0 and not (was_sampled and isfinite(value) and value < 0):
            wanted = "a finite number of at most 0" if was_sampled else "0.0, since nothing was sampled there"
            raise Mismatch(f"logprobs[{position}]", wanted, value, turn_id=row.turn_at(position).id)
    if row.weights is not None:
        _check_weights(row, row.weights)
    for name, held in row.side_arrays.items():
        if held is not None:
            _check_side_array(row, name, held)


def _check_staleness(row: Row) -> None:
    """Only a selection by staleness masks versions, and it masks those that are unknown."""
    at, stale = "certificate.selection.stale_versions", row.selection["stale_versions"]
    if row.selection["max_staleness"] is None:
        expect(at, [], stale)
    elif "unknown" not in stale and any(span["version"] == "unknown" for span in row.said["policy_versions"]):
        raise Mismatch(at, "unknown among them", stale)


def _fresh(row: Row, turn: Turn) -> "array[int]":
    """The mask of a trained turn: 0 at ids of stale versions."""
    stale, mask = row.selection["stale_versions"], array("B")
    for span in turn.said["policy_versions"]:
        mask.frombytes((b"\0" if span["version"] in stale else b"\1") * (span["end"] - span["start"]))
    if not any(mask):
        raise turn.mismatch("trained", "an untrained turn, since all of its versions are stale")
    return mask


def _check_reason(row: Row, turn: Turn) -> None:
    """The reason why a turn is masked must hold, and none that rules it out must be passed over."""
    said, selection = turn.said, row.selection
    stale = all(span["version"] in selection["stale_versions"] for span in said["policy_versions"])
    allowed = selection["distribution"]
    holds = {
        "earlier_row": selection["shared"] == "once",
        "train_false": not said["train"],
        "undelivered": said["delivered"] is False,
        "dropped": said["dropped_by_harness"] and selection["dropped"] == "exclude",
        "distribution": allowed is not None and said["distribution"] not in allowed,
        "stale": stale,
    }
    if said["trained"]:
        turn.expect("masked_because", None)
        against = [name for name in ("train_false", "dropped", "distribution", "stale") if holds[name]]
        if against:
            raise turn.mismatch("trained", f"an untrained turn, since {against[0]} holds")
    elif not holds.get(said["masked_because"]):
        raise turn.mismatch("masked_because", "a reason that holds, since the turn is not trained")


def _compare(row: Row, name: str, due: Numbers, found: Numbers) -> None:
    if due == found:
        return
    position = next(at for at, pair in enumerate(zip(due, found, strict=True)) if pair[0] != pair[1])
    raise Mismatch(f"{name}[{position}]", due[position], found[position], turn_id=row.turn_at(position).id)


def _check_weights(row: Row, weights: "array[float]") -> None:
    """A part of one where the mask is 1, the same for all of a turn; 0.0 elsewhere."""
    due = array("f", bytes(4 * len(weights)))
    for turn in row.turns:
        first = first_trained(row, turn)
        if first is None:
            continue
        if not parts_of(weights[first]):
            raise Mismatch(f"loss_weights[{first}]", "a float32 of 1/k", weights[first], turn_id=turn.id)
        for position in range(first, turn.end):
            due[position] = weights[first] * row.mask[position]
    _compare(row, "loss_weights", due, weights)


def parts_of(weight: float) -> int:
    """The k of which a weight is the float32 of 1/k; 0 where there is none."""
    count = round(1 / weight) if isfinite(weight) and 1e-9 < weight <= 1 else 0
    return count if count and array("f", [1 / count])[0] == weight else 0


def first_trained(row: Row, turn: Turn) -> int | None:
    """The position of the first id of a turn that the row trains; ``None`` where it trains none."""
    place = row.mask[turn.start : turn.end].tobytes().find(1)
    return None if place < 0 else turn.start + place


def _check_side_array(row: Row, name: str, held: SideArray) -> None:
    """It speaks of the positions that its name says."""
    at, length = f"side_arrays.{name}", len(row.ids)
    match name:
        case "routed_experts":
            expect(f"{at}.start", 0, held.start)
            if held.offsets is not None or len(held.shape) != 3 or held.end != length - 1:
                raise Mismatch(f"{at}.array.shape", f"{length - 1} positions, layers, top_k", held.shape)
        case "sampling_mask":
            expect(f"{at}.start", row.turns[0].start, held.start)
            if held.offsets is None or held.end != length:
                raise Mismatch(
                    f"{at}.offsets", f"offsets of the positions up to {length}", f"positions up to {held.end}"
                )
            _check_sampling_mask(row, held, f"{at}.offsets")
        case _:
            raise Mismatch(at, "routed_experts or sampling_mask", name)


def _check_sampling_mask(row: Row, held: SideArray, at: str) -> None:
    """Each id was sampled from ids that it is one of; between turns nothing was sampled."""
    for turn in row.turns:
        for position in range(max(turn.before, held.start), turn.start):
            if held.items(position):
                raise Mismatch(
                    f"{at}[{position - held.start}]", "no ids, since nothing was sampled", held.items(position)
                )
        for position in range(turn.start, turn.end):
            if row.ids[position] not in held.items(position):
                wanted = f"ids and {row.ids[position]} among them"
                raise Mismatch(f"{at}[{position - held.start}]", wanted, held.items(position), turn_id=turn.id)
