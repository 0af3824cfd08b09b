"""What a trainer reads: turns and rows as JSON, in pages."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Protocol, TypeVar

import orjson

from gateway.core.fate import Fates
from gateway.core.sampling import SamplingRecord
from gateway.core.segments import Row
from gateway.core.turn import Turn
from gateway.core.types import JsonObject
from gateway.errors import BadRequest

T_co = TypeVar("T_co", covariant=True)
T = TypeVar("T")

PAGE_TURNS, PAGE_ROWS = 500, 20
_PIECE_BYTES = 65_536
"""What is sent at once, and at least a row."""


class Items(Protocol[T_co]):
    """What is listed; an item may be made when it is asked for."""

    def __len__(self) -> int: ...
    def __getitem__(self, index: int, /) -> T_co: ...


Select = Callable[[Sequence[Turn]], Items[T]]
Encode = Callable[[T], JsonObject]


def encode_page(
    turns: Sequence[Turn], cursor: str | None, size: int, select: Select[T], encode: Encode[T]
) -> Iterator[bytes]:
    """One page of what `select` makes of the turns, in pieces: ``{"data": […], "next": cursor or null}``.

    All the work is done as the pieces are asked for, and no two large items are held at once.

    All pages that one `next` leads to are of the turns that there were at the first, so that a session which
    goes on meanwhile loses and doubles nothing.

    Raises:
        BadRequest: `cursor` is none of ours.
    """
    known = re.fullmatch(r"([0-9]{1,12})\.([0-9]{1,12})", f"{len(turns)}.0" if cursor is None else cursor)
    if known is None:
        raise BadRequest("cursor must be the `next` of an earlier page", param="cursor")
    count, start = map(int, known.groups())
    return _page(turns[:count], start, start + size, select, encode)


def _page(turns: Sequence[Turn], start: int, end: int, select: Select[T], encode: Encode[T]) -> Iterator[bytes]:
    items = select(turns)
    written = bytearray(b'{"data":[')
    for index in range(start, min(end, len(items))):
        written += b"," * (index > start) + orjson.dumps(encode(items[index]))
        if len(written) >= _PIECE_BYTES:
            yield bytes(written)
            written.clear()
    following = f"{len(turns)}.{end}" if end < len(items) else None
    yield bytes(written) + b'],"next":' + orjson.dumps(following) + b"}"


def turn_object(turn: Turn) -> dict[str, object]:
    """A turn as it was recorded."""
    return {
        "turn_id": turn.id,
        "parent_id": turn.parent.id if turn.parent else None,
        "status": turn.status,
        "how": turn.how,
        "reason": turn.reason,
        "prompt_tokens": turn.prompt_length,
        "completion_tokens": len(turn.completion.ids),
        "finish_reason": turn.completion.finish_reason.value,
        "ended_by": turn.ended_by,
        "engine": turn.origin.engine,
        "rank": turn.origin.rank,
        "policy_versions": [asdict(span) for span in turn.completion.spans],
        "sampling": sampling_object(turn.sampling),
        "overridden": dict(turn.sampling.overridden),
        "distribution": turn.sampling.distribution,
        "logprobs_mode": turn.sampling.logprobs_mode,
        "logprobs_exact": turn.sampling.logprobs_exact,
        "differences": {kind: asdict(found) for kind, found in turn.differences.items()},
        "flags": list(turn.flags),
        "thinking_retention": turn.origin.thinking_retention,
        "tags": dict(turn.labels.tags),
        "train": turn.labels.train,
    }


def sampling_object(sampling: SamplingRecord) -> dict[str, object]:
    """The parameters in effect, by their names in vLLM."""
    lists = {"stop": list(sampling.effective.stop), "stop_token_ids": list(sampling.stop_token_ids)}
    return asdict(sampling.effective) | lists


def told_turn(fates: Fates, turn: Turn) -> dict[str, object]:
    """A turn as ``GET /sessions/{sid}/turns`` shows it: with what became of it since."""
    fate = fates(turn)
    return turn_object(turn) | {"delivered": fate.delivered, "dropped_by_harness": fate.dropped}


def row_object(session: Mapping[str, object], fates: Fates, row: Row) -> dict[str, object]:
    """A row as ``GET /sessions/{sid}/trajectories`` shows it; positions of its turns are positions in the row.

    `session` is what the session says of all its rows: its id, its group, its reward.
    """
    places = [(told_turn(fates, part.turn), part) for part in row.turns]
    return {
        **session,
        "row_id": row.id,
        "token_ids": row.token_ids.tolist(),
        "loss_mask": row.loss_mask.tolist(),
        "logprobs": row.logprobs.tolist(),
        "thinking_retention": row.turns[-1].turn.origin.thinking_retention,
        "turns": [told | {"start": part.start, "end": part.end, "trained": part.trained} for told, part in places],
    }
