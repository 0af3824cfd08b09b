"""Rows as docs/rows.md and docs/certificate.md describe them, written without the gateway's own exporter; and a forger.

What is certified here is computed in another way than in `gateway.verify`: whole rows at once, from plain lists.
"""

import base64
import copy
import hashlib
import json
import struct
from collections.abc import Mapping, Sequence
from typing import Any

Json = dict[str, Any]

SELECTION: Json = {
    "leaves": "all",
    "include": [],
    "dropped": "include",
    "distribution": None,
    "max_staleness": None,
    "stale_versions": [],
    "shared": "once",
}
RENDERER: Json = {"name": "a", "version": "1", "template": None}
_FORMATS = {"token_ids": "I", "loss_mask": "B", "logprobs": "f", "loss_weights": "f"}
_DTYPES = {"token_ids": "<u4", "loss_mask": "|u1", "logprobs": "<f4", "loss_weights": "<f4"}


def f32(value: float) -> float:
    """The nearest float32."""
    return struct.unpack("<f", struct.pack("<f", value))[0]


def sha(*parts: bytes) -> str:
    """SHA-256."""
    return hashlib.sha256(b"".join(parts)).hexdigest()


def json_sha(value: object) -> str:
    """SHA-256 of JSON."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return sha(text.encode("utf-8", "surrogatepass"))


def object_sha(value: Json, *lists: str) -> str:
    """SHA-256 of the JSON of an object in which these lists stand as hashes of the hashes of their items."""
    hashed = {name: sha("".join(map(json_sha, value[name])).encode()) for name in lists}
    return json_sha(value | hashed)


def packed(name: str, values: Sequence[float]) -> bytes:
    """An array's bytes."""
    return struct.pack(f"<{len(values)}{_FORMATS[name]}", *values)


def form(dtype: str, shape: Sequence[int], data: bytes) -> Json:
    """An array in base64."""
    return {"dtype": dtype, "shape": list(shape), "base64": base64.b64encode(data).decode()}


def in_base64(row: Json) -> Json:
    """A row with its arrays in base64."""
    arrays = {name: form(_DTYPES[name], [len(row[name])], packed(name, row[name])) for name in _FORMATS if name in row}
    return row | arrays


def numbers(row: Json, name: str) -> list[Any]:
    """An array of a row, whatever form it has."""
    value = row[name]
    if isinstance(value, list):
        return value
    data = base64.b64decode(value["base64"])
    return list(struct.unpack(f"<{len(data) // struct.calcsize(_FORMATS[name])}{_FORMATS[name]}", data))


class Turns:
    """Recorded turns of one session, by their ids; bases are turns, too."""

    def __init__(self) -> None:
        self.turns: dict[str, Json] = {}
        self.ids: dict[str, list[int]] = {}
        self.bases: dict[str, str | None] = {}

    def add(self, name: str, base: str | None = None, *, sampled: int = 3, **said: Any) -> None:
        """A turn that adds two ids to its base, or renders four, and samples some."""
        before = self.ids[base] if base else [11, 12]
        prompt = [*before, 21 + len(self.ids), 22]
        end = said.get("finish_reason", "stop")
        ended_by = {"stop": "stop", "length": "max_tokens", "abort": "client_gone"}[end]
        self.ids[name] = [*prompt, *(100 * (len(self.ids) + 1) + i for i in range(sampled))]
        self.bases[name] = base
        self.turns[name] = {
            "turn_id": name,
            "parent_id": base,
            "status": "aborted" if end == "abort" else "complete",
            "how": "bridged" if base else "rendered",
            "reason": None if base else "first_turn",
            "prompt_tokens": len(prompt),
            "completion_tokens": sampled,
            "overshoot_tokens": 0,
            "cuts": [],
            "finish_reason": end,
            "ended_by": ended_by,
            "engine": "http://engine-0:8000",
            "rank": 0,
            "policy_versions": [{"version": "v1", "start": 0, "end": sampled, "source": "engine"}],
            "differences": {},
            "flags": [],
            "thinking_retention": "all",
            "tags": {"agent": name},
            "train": True,
            "delivered": True,
            "dropped_by_harness": False,
            "sampling": {"temperature": 1.0, "top_p": 1.0, "top_k": 0, "min_p": 0.0, "max_tokens": 100},
            "overridden": {},
            "distribution": "exact",
            "logprobs_mode": "processed",
            "logprobs_exact": True,
        } | said

    def path(self, leaf: str) -> list[str]:
        """The turns of a leaf's row."""
        base = self.bases[leaf]
        return [*(self.path(base) if base else []), leaf]


def rows_of(
    turns: Turns,
    leaves: Sequence[str],
    *,
    session: str = "s",
    masked: Mapping[str, str] | None = None,
    **selection: Any,
) -> list[Json]:
    """The certified rows of these leaves; `masked` are the turns that none trains, with the reasons."""
    chosen, masked = SELECTION | selection, masked or {}
    shared, stale = chosen["shared"], chosen["stale_versions"]
    paths = [turns.path(leaf) for leaf in leaves]
    owners = {name: next(i for i, path in enumerate(paths) if name in path) for path in paths for name in path}
    rows = []
    for index, (leaf, path) in enumerate(zip(leaves, paths, strict=True)):
        length = len(turns.ids[leaf])
        row: Json = {
            "session_id": session,
            "group_id": None,
            "rollout_id": session,
            "row_id": leaf,
            "row_index": index,
            "n_rows": len(leaves),
            "reward": 1.0,
            "metadata": {"task": "täsk"},
            "tags": {},
            "model": "m",
            "tools": [],
            "messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Yes"}],
            "token_ids": turns.ids[leaf],
            "loss_mask": [0] * length,
            "logprobs": [0.0] * length,
            "policy_versions": [],
            "side_arrays": {},
            "ended_by": turns.turns[leaf]["ended_by"],
            "truncated": turns.turns[leaf]["ended_by"] not in ("stop", "tool_calls"),
            "thinking_retention": "all",
            "turns": [],
        }
        if shared == "split":
            row["loss_weights"] = [0.0] * length
        for name in path:
            said = turns.turns[name]
            start, end = said["prompt_tokens"], said["prompt_tokens"] + said["completion_tokens"]
            because = masked.get(name) or ("earlier_row" if shared == "once" and owners[name] != index else None)
            holders = sum(name in other for other in paths)
            row["logprobs"][start:end] = [f32(-1 / (3 + i)) for i in range(end - start)]
            for span in said["policy_versions"]:
                for at in range(start + span["start"], start + span["end"]):
                    row["loss_mask"][at] = int(because is None and span["version"] not in stale)
                    if shared == "split":
                        row["loss_weights"][at] = f32(1 / holders) * row["loss_mask"][at]
                moved = {"start": start + span["start"], "end": start + span["end"]}
                row["policy_versions"].append(span | moved)
            row["tags"] |= said["tags"]
            extra = {"start": start, "end": end, "trained": because is None, "masked_because": because}
            row["turns"].append(copy.deepcopy(said) | extra)
        new = next(name for name in path if owners[name] == index)
        parent = turns.turns[new]["parent_id"]
        row["parent_row_id"] = leaves[owners[parent]] if parent in owners else None
        row["certificate"] = {"version": 1, "selection": chosen, "renderer": RENDERER}
        rows.append(row)
    trained = {
        (t["turn_id"], i)
        for row in rows
        for t in row["turns"]
        for i in range(t["start"], t["end"])
        if row["loss_mask"][i]
    }
    total = len(trained) if shared == "split" else sum(sum(row["loss_mask"]) for row in rows)
    return [certified(row | {"rollout_trainable_tokens": total}) for row in rows]


def certified(row: Json) -> Json:
    """A row with hashes of what it has; the selection, the renderer and the bases that it names stay, where it does."""
    arrays = {name: packed(name, numbers(row, name)) for name in _FORMATS if name in row}
    old = row["certificate"]
    bases = [turn["base_id"] for turn in old.get("turns", [])]
    if len(bases) != len(row["turns"]):
        bases = [None, *(turn["turn_id"] for turn in row["turns"])][: len(row["turns"])]
    turns, before = [], 0
    for turn, base in zip(row["turns"], bases, strict=True):
        start, end = turn["start"], turn["end"]
        turns.append(
            {name: turn[name] for name in ("turn_id", "how", "reason", "differences")}
            | {
                "base_id": base,
                "prompt": sha(arrays["token_ids"][: 4 * start]),
                "completion": sha(arrays["token_ids"][4 * start : 4 * end]),
                "logprobs": sha(arrays["logprobs"][4 * start : 4 * end]),
                "mask": sha(arrays["loss_mask"][start:end]),
                "spans": json_sha(turn["policy_versions"]),
                "side_arrays": {
                    name: part_sha(held, *((max(0, before - 1), end - 1) if name == "routed_experts" else (start, end)))
                    for name, held in row["side_arrays"].items()
                },
            }
        )
        before = end
    whole: Json = {name: sha(data) for name, data in arrays.items()}
    whole["side_arrays"] = {name: part_sha(held) for name, held in row["side_arrays"].items()}
    apart = {"certificate", *_FORMATS, "side_arrays", "teacher_logprobs"}
    said = {name: value for name, value in row.items() if name not in apart}
    claims = object_sha(said, "messages", "policy_versions", "tools", "turns")
    certificate = {name: old[name] for name in ("version", "selection", "renderer")}
    certificate |= {"arrays": whole, "turns": turns, "claims": claims}
    return row | {"certificate": certificate | {"row": object_sha(certificate, "turns")}}


def part_sha(held: Json | None, start: int | None = None, end: int | None = None) -> str | None:
    """The hash of a side array, or of its positions from `start` to `end`."""
    if held is None:
        return None
    dtype, shape, data = held["array"]["dtype"], held["array"]["shape"], base64.b64decode(held["array"]["base64"])
    width, offsets = int(dtype[2]), None
    if "offsets" in held:
        raw = base64.b64decode(held["offsets"]["base64"])
        offsets = struct.unpack(f"<{len(raw) // 4}I", raw)
    start = held["start"] if start is None else start
    if end is None:
        end = held["start"] + (len(offsets) - 1 if offsets else shape[0])
    first, last = start - held["start"], end - held["start"]
    if offsets:
        counted = [at - offsets[first] for at in offsets[first : last + 1]]
        data = data[width * offsets[first] : width * offsets[last]]
        return _side_sha(dtype, [counted[-1]], start, struct.pack(f"<{len(counted)}I", *counted) + data)
    for size in shape[1:]:
        width *= size
    return _side_sha(dtype, [end - start, *shape[1:]], start, data[width * first : width * last])


def _side_sha(dtype: str, shape: list[int], start: int, data: bytes) -> str:
    head = json.dumps({"dtype": dtype, "shape": shape, "start": start}, sort_keys=True, separators=(",", ":"))
    return sha(head.encode(), data)


def footer_of(rows: Sequence[Json], excluded: Sequence[Json] = ()) -> Json:
    """The footer of a file."""
    footer: Json = {"version": 1, "rows": len(rows), "excluded": list(excluded)}
    chain = "0" * 64
    for link in [*(row["certificate"]["row"] for row in rows), object_sha(footer, "excluded")]:
        chain = sha((chain + link).encode())
    return footer | {"chain": chain}


def lines(rows: Sequence[Json], footer: Json | None = None) -> bytes:
    """A file of rows."""
    written = [*rows, *([{"footer": footer}] if footer else [])]
    return b"".join(json.dumps(value).encode() + b"\n" for value in written)
