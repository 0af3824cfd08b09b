"""Which fields there must be, and of which kind: looked at before anything is made of their values."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from gateway.verify.mismatch import Json, Mismatch


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of value: its name, and what tells it."""

    name: str
    holds: Callable[[Any], bool]

    @property
    def or_null(self) -> "Kind":
        """A kind that ``null`` is of, too."""
        return Kind(f"{self.name} or null", lambda value: value is None or self.holds(value))


WHOLE = Kind("a whole number below 2^63", lambda value: type(value) is int and 0 <= value < 1 << 63)
FLOAT = Kind("a float", lambda value: type(value) is float)
TEXT = Kind("a text", lambda value: type(value) is str)
FLAG = Kind("true or false", lambda value: type(value) is bool)
OBJECT = Kind("an object", lambda value: type(value) is dict)
LIST = Kind("a list", lambda value: type(value) is list)
HASH = Kind("64 hexadecimal digits", lambda value: type(value) is str and len(value) == 64)
ARRAY = Kind("a list or an array in base64", lambda value: type(value) in (list, dict))

ROW: Mapping[str, Kind] = {
    "session_id": TEXT,
    "group_id": TEXT.or_null,
    "rollout_id": TEXT,
    "row_id": TEXT,
    "row_index": WHOLE,
    "n_rows": WHOLE,
    "rollout_trainable_tokens": WHOLE,
    "parent_row_id": TEXT.or_null,
    "reward": FLOAT.or_null,
    "metadata": OBJECT,
    "tags": OBJECT,
    "model": TEXT.or_null,
    "tools": LIST,
    "messages": LIST,
    "token_ids": ARRAY,
    "loss_mask": ARRAY,
    "logprobs": ARRAY,
    "policy_versions": LIST,
    "side_arrays": OBJECT,
    "ended_by": TEXT,
    "truncated": FLAG,
    "thinking_retention": TEXT.or_null,
    "turns": LIST,
    "certificate": OBJECT,
}

TURN: Mapping[str, Kind] = {
    "turn_id": TEXT,
    "parent_id": TEXT.or_null,
    "status": TEXT,
    "how": TEXT,
    "reason": TEXT.or_null,
    "prompt_tokens": WHOLE,
    "completion_tokens": WHOLE,
    "overshoot_tokens": WHOLE,
    "finish_reason": TEXT,
    "engine": TEXT,
    "rank": WHOLE,
    "policy_versions": LIST,
    "cuts": LIST,
    "differences": OBJECT,
    "flags": LIST,
    "thinking_retention": TEXT.or_null,
    "tags": OBJECT,
    "train": FLAG,
    "delivered": FLAG.or_null,
    "dropped_by_harness": FLAG,
    "sampling": OBJECT,
    "overridden": OBJECT,
    "distribution": TEXT,
    "logprobs_mode": TEXT,
    "logprobs_exact": FLAG,
    "ended_by": TEXT,
    "start": WHOLE,
    "end": WHOLE,
    "trained": FLAG,
    "masked_because": TEXT.or_null,
}

SPAN: Mapping[str, Kind] = {"version": TEXT, "start": WHOLE, "end": WHOLE, "source": TEXT}

CUT: Mapping[str, Kind] = {
    "position": WHOLE,
    "reason": TEXT,
    "from_engine": TEXT,
    "from_rank": WHOLE,
    "to_engine": TEXT,
    "to_rank": WHOLE,
    "kv": TEXT,
}

CERTIFICATE: Mapping[str, Kind] = {
    "version": WHOLE,
    "selection": OBJECT,
    "renderer": OBJECT,
    "arrays": OBJECT,
    "turns": LIST,
    "claims": HASH,
    "row": HASH,
}

RENDERER: Mapping[str, Kind] = {"name": TEXT, "version": TEXT, "template": HASH.or_null}

ARRAYS: Mapping[str, Kind] = {"token_ids": HASH, "loss_mask": HASH, "logprobs": HASH, "side_arrays": OBJECT}

SELECTION: Mapping[str, Kind] = {
    "leaves": TEXT,
    "include": LIST,
    "dropped": TEXT,
    "distribution": LIST.or_null,
    "max_staleness": WHOLE.or_null,
    "stale_versions": LIST,
    "shared": TEXT,
}

CERTIFIED_TURN: Mapping[str, Kind] = {
    "turn_id": TEXT,
    "how": TEXT,
    "reason": TEXT.or_null,
    "base_id": TEXT.or_null,
    "differences": OBJECT,
    "prompt": HASH,
    "completion": HASH,
    "logprobs": HASH,
    "mask": HASH,
    "spans": HASH,
    "side_arrays": OBJECT,
}

EXCLUDED: Mapping[str, Kind] = {"session_id": TEXT, "turn_id": TEXT, "reason": TEXT, "tokens": WHOLE}

FOOTER: Mapping[str, Kind] = {"version": WHOLE, "rows": WHOLE, "excluded": LIST, "chain": HASH}


def check_object(value: object, at: str, kinds: Mapping[str, Kind]) -> Json:
    """An object that has these fields; others are for the hashes.

    Raises:
        Mismatch: it is none, or a field is missing or of another kind.
    """
    if not isinstance(value, dict):
        raise Mismatch(at, "an object", value)
    within = f"{at}." if at else ""
    for name, kind in kinds.items():
        if name not in value:
            raise Mismatch(f"{within}{name}", kind.name, "nothing there")
        if not kind.holds(value[name]):
            raise Mismatch(f"{within}{name}", kind.name, value[name])
    return value
