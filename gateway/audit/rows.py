"""What of a row an audit looks at."""

from array import array
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from gateway.core.types import JsonObject
from gateway.errors import ConfigError
from gateway.wire.arrays import read_numbers

_ARRAYS = ("token_ids", "loss_mask", "logprobs")


@dataclass(frozen=True, slots=True)
class Row:
    """A row with what was recorded of it."""

    id: str
    ids: "array[int]"
    logprobs: "array[float]"
    trained: tuple[int, ...]
    """Positions with mask 1 in turns that were sampled from the model's own distribution: those that can be compared
    with scores, which are at temperature 1 and not truncated."""
    apart: Mapping[str, int]
    """How many other positions with mask 1 there are, by what keeps them from being compared."""


def row_of(item: JsonObject) -> Row:
    """What an audit looks at of a row.

    Raises:
        ConfigError: a field is missing or is none of a row's.
    """
    row_id = str(item.get("row_id"))
    try:
        ids, mask, logprobs = (read_numbers(name, item[name]) for name in _ARRAYS)
        if not len(ids) == len(mask) == len(logprobs) > 0:
            raise ValueError(f"{len(ids)} token_ids, {len(mask)} of loss_mask and {len(logprobs)} logprobs")
        trained: list[int] = []
        apart: Counter[str] = Counter()
        outside = sum(map(bool, mask))
        for turn in cast(list[dict[str, Any]], item["turns"]):
            kept = [at for at in range(turn["start"], turn["end"]) if mask[at]]
            outside -= len(kept)
            if (why := _why_apart(turn)) is None:
                trained += kept
            elif kept:
                apart[why] += len(kept)
        if outside > 0:
            apart["no_turn"] = outside
    except (LookupError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise ConfigError(f"row {row_id} cannot be read: {type(error).__name__}: {error}") from None
    return Row(row_id, ids, logprobs, tuple(trained), apart)


def _why_apart(turn: Mapping[str, Any]) -> str | None:
    """What keeps a turn's logprobs from being compared with scores; ``None`` when nothing does."""
    distribution = turn.get("distribution") or "unknown"
    if distribution != "exact":
        return str(distribution)
    return None if turn["sampling"]["temperature"] == 1 else "temperature"
