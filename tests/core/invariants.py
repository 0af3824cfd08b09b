"""What holds of every session, whatever was done to it: checked against the naive record."""

from collections.abc import Sequence
from itertools import compress

from gateway.core.segments import Row, Rows
from gateway.core.turn import Turn
from gateway.core.types import float32s
from tests.core.naive import Sample


def audit(turns: Sequence[Turn], samples: Sequence[Sample]) -> None:
    """Rows train each id of each complete sample once, in the context in which it was sampled, with its own logprob."""
    assert [sample.id for sample in samples] == [turn.id for turn in turns]
    known = {sample.id: sample for sample in samples}
    exported = list(Rows(turns))
    for row in exported:
        _audit_row(row, known)
    trained = sorted(i for row in exported for i in compress(row.token_ids, row.loss_mask))
    assert trained == sorted(i for sample in samples if sample.complete for i in sample.whole[sample.start :])


def _audit_row(row: Row, known: dict[str, Sample]) -> None:
    mask, logprobs = bytearray(len(row.token_ids)), float32s([0.0] * len(row.token_ids))
    for part in row.turns:
        sample = known[part.turn.id]
        assert sample.complete
        assert (sample.start, len(sample.whole)) == (part.start, part.end)
        assert sample.whole == row.token_ids[: part.end]  # with this, each prompt extends the turn before
        mask[part.start : part.end] = bytes([part.trained] * (part.end - part.start))
        logprobs[part.start : part.end] = sample.logprobs
        _audit_evidence(part.turn, sample)
    assert part.end == len(row.token_ids)
    assert mask == row.loss_mask.tobytes()
    assert logprobs == row.logprobs


def _audit_evidence(turn: Turn, sample: Sample) -> None:
    """Ids, logprobs and spans agree in number, and the turn stores what it added and no more."""
    completion = turn.completion
    assert len(completion.ids) == len(completion.logprobs) == len(sample.logprobs)
    bounds = [position for span in completion.spans for position in range(span.start, span.end)]
    assert bounds == list(range(len(completion.ids)))
    assert turn.prompt.length == sample.start
    own = sum(len(piece) for piece in turn.prompt.pieces if not isinstance(piece, tuple))
    assert turn.base is None or own == sample.start - turn.base.prompt.length
