"""The parts of a completion that took several calls, joined to one."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from gateway.core.alternatives import Alternatives
from gateway.core.side_arrays import SIDE_ARRAYS, SideArray
from gateway.core.types import Completion, VersionSpan, float32s, token_ids
from gateway.core.versions import merged


def joined(parts: Sequence[Completion]) -> Completion:
    """One completion of all parts, in order, each sampled behind the ids of those before; it ends as the last does.

    Alternatives and side arrays are there where all their positions are told of. Neighbouring spans of one version are
    one.
    """
    ids, logprobs = token_ids(), float32s()
    for part in parts:
        ids.extend(part.ids)
        logprobs.extend(part.logprobs)
    told = {name: _side_array(name, parts) for name in SIDE_ARRAYS}
    return Completion(
        ids,
        logprobs,
        parts[-1].finish_reason,
        merged(_spans(parts)),
        _alternatives([part.alternatives for part in parts]),
        {name: held for name, held in told.items() if held is not None},
        sum(part.overshoot_tokens for part in parts),
    )


def told_of(parts: Sequence[Completion], known: int) -> int:
    """The first position of whose experts no engine has told: `known`, below zero in the prompt, or one behind that."""
    for before, part in _placed(parts):
        held = part.side_arrays.get("routed_experts")
        if held is not None and before + held.start <= known:
            known = max(known, before + held.end)
    return known


def _placed(parts: Sequence[Completion]) -> Iterator[tuple[int, Completion]]:
    """Each part, and how many ids come before it."""
    before = 0
    for part in parts:
        yield before, part
        before += len(part.ids)


def _spans(parts: Sequence[Completion]) -> Iterator[VersionSpan]:
    for before, part in _placed(parts):
        for span in part.spans:
            yield replace(span, start=before + span.start, end=before + span.end)


def _alternatives(held: Sequence[Alternatives | None]) -> Alternatives | None:
    ids, logprobs = token_ids(), float32s()
    for part in held:
        if part is None:
            return None
        ids.extend(part.ids)
        logprobs.extend(part.logprobs)
    width = max(part.width for part in held if part)
    return Alternatives(width, ids, logprobs)


def _side_array(name: str, parts: Sequence[Completion]) -> SideArray | None:
    """The array of all positions; ``None`` where some are not told of, or not alike.

    A part may lack the experts where a later one tells of its positions: what an engine reads it can tell of, and the
    calls after ask for what is missing.
    """
    found: list[SideArray] = []
    for before, part in _placed(parts):
        if (told := part.side_arrays.get(name)) is None:
            continue
        held = told.moved(before + told.start)
        reached = found[-1].end if found else held.start
        if held.start > reached or (found and (held.dtype, held.shape[1:]) != (found[0].dtype, found[0].shape[1:])):
            return None
        found.append(held.part(reached, held.end))
    length = sum(len(part.ids) for part in parts) - (name == "routed_experts")
    return _concatenated(found) if found and found[0].start <= 0 and found[-1].end == length else None


def _concatenated(found: Sequence[SideArray]) -> SideArray:
    shape = (sum(part.shape[0] for part in found), *found[0].shape[1:])
    data = b"".join(part.data for part in found)
    offsets = None
    if found[0].offsets is not None:
        offsets = token_ids([0])
        for part in found:
            assert part.offsets is not None  # the arrays of a name are of one kind
            total = offsets[-1]
            offsets.extend([total + offset for offset in part.offsets[1:]])
    return SideArray(found[0].start, found[0].dtype, shape, data, offsets)
