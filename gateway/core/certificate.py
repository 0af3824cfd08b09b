"""What shows that a row is as the gateway wrote it, and how its prompts came about; `docs/certificate.md` is the rule.

Arrays are hashed as they lie in memory, which is little-endian on every machine that this runs on.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from hashlib import sha256
from typing import cast

from gateway.core.rows import Row, RowTurn
from gateway.core.side_arrays import SideArray, own_positions
from gateway.core.types import JsonObject

CERTIFICATE_VERSION = 1

_LONG = ("messages", "policy_versions", "tools", "turns", "excluded")
"""Fields that are hashed item by item: to write one of a thousand turns at once would hold up all other threads."""

_ENCODER = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def hash_of(value: object) -> str:
    """The hash of a JSON value."""
    return sha256(_json(value)).hexdigest()


def _json(value: object) -> bytes:
    return _ENCODER.encode(value).encode("utf-8", "surrogatepass")


def _hash_in_parts(said: Mapping[str, object]) -> str:
    """The hash of an object in which long lists stand as the hash of their items' hashes."""
    return hash_of({name: _hash_of_items(held) if name in _LONG else held for name, held in said.items()})


def _hash_of_items(items: object) -> str:
    hashed = sha256()
    for item in cast(Iterable[object], items):
        hashed.update(hash_of(item).encode())
    return hashed.hexdigest()


def certificate(row: Row, claims: JsonObject) -> dict[str, object]:
    """The certificate of a row; `claims` is all that its object says, save arrays and certificate."""
    beside = {name: held and _hash_of_side_array(held) for name, held in row.side_arrays.items()}
    written: dict[str, object] = {
        "version": CERTIFICATE_VERSION,
        "selection": {**row.selection.told(), "stale_versions": list(row.stale_versions)},
        "renderer": asdict(row.last.origin.renderer),
        "arrays": {**{name: sha256(values).hexdigest() for name, values in row.arrays.items()}, "side_arrays": beside},
        "turns": _turns(row),
        "claims": _hash_in_parts(claims),
    }
    return {**written, "row": _hash_in_parts(written)}


def _turns(row: Row) -> list[JsonObject]:
    told: list[JsonObject] = []
    read, before = sha256(), 0
    for part in row.turns:
        read.update(row.token_ids[before : part.start])
        told.append(_turn(row, part, read.hexdigest(), before))
        read.update(row.token_ids[part.start : part.end])
        before = part.end
    return told


def _turn(row: Row, part: RowTurn, prompt: str, before: int) -> JsonObject:
    turn, own = part.turn, slice(part.start, part.end)
    return {
        "turn_id": turn.id,
        "how": turn.how,
        "reason": turn.reason,
        "base_id": turn.base.id if turn.base else None,
        "differences": {kind: asdict(found) for kind, found in turn.differences.items()},
        "prompt": prompt,
        "completion": sha256(row.token_ids[own]).hexdigest(),
        "logprobs": sha256(row.logprobs[own]).hexdigest(),
        "mask": sha256(row.loss_mask[own]).hexdigest(),
        "spans": hash_of([asdict(span) for span in turn.completion.spans]),
        "side_arrays": {
            name: held and _hash_of_side_array(held.part(*own_positions(name, part.start, part.end, before)))
            for name, held in row.side_arrays.items()
        },
    }


def _hash_of_side_array(held: SideArray) -> str:
    hashed = sha256(_json({"dtype": held.dtype, "shape": list(held.shape), "start": held.start}))
    if held.offsets is not None:
        hashed.update(held.offsets)
    hashed.update(held.data)
    return hashed.hexdigest()


class Chain:
    """The running hash over the rows of a file, so that none can be lost or moved unnoticed."""

    def __init__(self) -> None:
        self._rows = 0
        self._hash = "0" * 64

    def add(self, row_hash: str) -> None:
        """One more row, by the hash in its certificate."""
        self._hash = _chained(self._hash, row_hash)
        self._rows += 1

    def footer(self, excluded: Sequence[JsonObject]) -> JsonObject:
        """What is said at the end of the file; `excluded` are the turns that none of its rows trains."""
        said = {"version": CERTIFICATE_VERSION, "rows": self._rows, "excluded": list(excluded)}
        return {**said, "chain": _chained(self._hash, _hash_in_parts(said))}


def _chained(chain: str, link: str) -> str:
    return sha256((chain + link).encode()).hexdigest()
