"""What a trainer reads: turns and rows as JSON, in pages."""

import re
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import TypeVar

import orjson

from gateway.core.segments import Row
from gateway.core.turn import Turn
from gateway.errors import BadRequest

T = TypeVar("T")
Select = Callable[[Sequence[Turn]], Sequence[T]]
Encode = Callable[[T], dict[str, object]]

PAGE_TURNS, PAGE_ROWS = 500, 20


def encode_page(turns: Sequence[Turn], cursor: str | None, size: int, select: Select[T], encode: Encode[T]) -> bytes:
    """One page of what `select` makes of the turns: ``{"data": […], "next": cursor or null}``.

    All pages that one `next` leads to are of the turns that there were at the first, so that a session which
    goes on meanwhile loses and doubles nothing.

    Raises:
        BadRequest: `cursor` is none of ours.
    """
    known = re.fullmatch(r"([0-9]{1,12})\.([0-9]{1,12})", f"{len(turns)}.0" if cursor is None else cursor)
    if known is None:
        raise BadRequest("cursor must be the `next` of an earlier page", param="cursor")
    count, start = map(int, known.groups())
    items, end = select(turns[:count]), start + size
    page = [encode(item) for item in items[start:end]]
    return orjson.dumps({"data": page, "next": f"{count}.{end}" if end < len(items) else None})


def turn_object(turn: Turn) -> dict[str, object]:
    """A turn as ``GET /sessions/{sid}/turns`` shows it."""
    return {
        "turn_id": turn.id,
        "parent_id": turn.parent.id if turn.parent else None,
        "status": turn.status,
        "how": turn.how,
        "reason": turn.reason,
        "prompt_tokens": turn.prompt_length,
        "completion_tokens": len(turn.completion.ids),
        "finish_reason": turn.completion.finish_reason.value,
        "engine": turn.origin.engine,
        "rank": turn.origin.rank,
        "policy_versions": [asdict(span) for span in turn.completion.spans],
        "differences": sorted(turn.differences),
        "flags": list(turn.flags),
        "thinking_retention": turn.origin.thinking_retention,
    }


def row_object(session_id: str, row: Row) -> dict[str, object]:
    """A row as ``GET /sessions/{sid}/trajectories`` shows it; positions of its turns are positions in the row."""
    return {
        "session_id": session_id,
        "row_id": row.id,
        "token_ids": row.token_ids.tolist(),
        "loss_mask": row.loss_mask.tolist(),
        "logprobs": row.logprobs.tolist(),
        "thinking_retention": row.turns[-1].turn.origin.thinking_retention,
        "turns": [turn_object(p.turn) | {"start": p.start, "end": p.end, "trained": p.trained} for p in row.turns],
    }
