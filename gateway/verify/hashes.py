"""The hashes of a row, computed again."""

from hashlib import sha256

from gateway.verify.digest import of_bytes, of_json, of_object
from gateway.verify.mismatch import Json, Mismatch
from gateway.verify.row import Row, Turn

_APART = ("certificate", "token_ids", "loss_mask", "logprobs", "loss_weights", "side_arrays", "teacher_logprobs")
"""Fields of a row that `claims` leaves out."""

_LISTS = ("messages", "policy_versions", "tools", "turns")
"""Those that are hashed item by item."""


def check_hashes(row: Row) -> None:
    """Hold all that a row has to its certificate.

    Raises:
        Mismatch: something hashes to something else; it names the turn and the array.
    """
    certificate = row.certificate
    data = {name: memoryview(held).cast("B") for name, held in row.arrays.items()}
    prompt = sha256()
    for turn in row.turns:
        prompt.update(data["token_ids"][4 * turn.before : 4 * turn.start])
        _check_turn(row, turn, data, prompt.hexdigest())
        prompt.update(data["token_ids"][4 * turn.start : 4 * turn.end])
    whole: Json = {name: of_bytes(held) for name, held in data.items()}
    whole["side_arrays"] = {name: held and held.hash_of(held.start, held.end) for name, held in row.side_arrays.items()}
    _check("certificate.arrays", whole, certificate["arrays"])
    said = {name: value for name, value in row.said.items() if name not in _APART}
    _check("certificate.claims", of_object(said, _LISTS), certificate["claims"])
    rest = {name: value for name, value in certificate.items() if name != "row"}
    _check("certificate.row", of_object(rest, ("turns",)), certificate["row"])


def _check_turn(row: Row, turn: Turn, data: dict[str, memoryview], prompt: str) -> None:
    start, end = turn.start, turn.end
    ids, mask, logprobs = data["token_ids"], data["loss_mask"], data["logprobs"]
    due = {
        "prompt": prompt,
        "completion": of_bytes(ids[start * 4 : end * 4]),
        "logprobs": of_bytes(logprobs[start * 4 : end * 4]),
        "mask": of_bytes(mask[start:end]),
        "spans": of_json(turn.said["policy_versions"]),
    }
    places = {
        "prompt": f"token_ids[{turn.before}:{start}]",  # up to `before` the turn before has vouched for it
        "completion": f"token_ids[{start}:{end}]",
        "logprobs": f"logprobs[{start}:{end}]",
        "mask": f"loss_mask[{start}:{end}]",
        "spans": turn.at("policy_versions"),
    }
    for name, found in due.items():
        certified = turn.certified[name]
        if found != certified:
            wanted = f"{name} with the hash {certified}, as certificate.turns[{turn.index}] says"
            raise Mismatch(places[name], wanted, found, turn_id=turn.id)
    parts = {name: held and held.hash_of(*_part(name, turn)) for name, held in row.side_arrays.items()}
    _check(f"certificate.turns[{turn.index}].side_arrays", parts, turn.certified["side_arrays"], turn.id)


def _part(name: str, turn: Turn) -> tuple[int, int]:
    """The positions that a turn adds to a side array."""
    if name == "routed_experts":
        return max(0, turn.before - 1), turn.end - 1
    return turn.start, turn.end


def _check(at: str, due: object, certified: object, turn_id: str | None = None) -> None:
    """A hash, or an object of them, name by name."""
    if isinstance(due, dict) and isinstance(certified, dict):
        for name in sorted(due.keys() | certified.keys()):
            _check(f"{at}.{name}", due.get(name, "nothing"), certified.get(name, "nothing there"), turn_id)
    elif due != certified:
        raise Mismatch(at, due, certified, turn_id=turn_id)
