"""What holds of every session, whatever was done to it: checked against the naive record."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import compress
from math import isclose

from gateway.core.ledger import Ledger
from gateway.core.rows import Rollout, Row
from gateway.core.segments import Excluded
from gateway.core.selection import Selection
from gateway.core.turn import Turn
from gateway.core.types import float32s
from tests.core.naive import Sample
from tests.core.present import session_now


@dataclass(frozen=True, slots=True)
class Shown:
    """A row as a trainer reads it."""

    token_ids: Sequence[int]
    loss_mask: Sequence[int]
    logprobs: Sequence[float]
    turns: Sequence[tuple[str, int, int, bool]]
    """Ids of its turns, where what they sampled begins and ends, and whether the row trains it."""


def shown(row: Row) -> Shown:
    """A row before it is written."""
    turns = [(part.turn.id, part.start, part.end, part.trained) for part in row.turns]
    return Shown(row.token_ids, row.loss_mask, row.logprobs, turns)


def audit(ledger: Ledger, samples: Sequence[Sample]) -> None:
    """Rows train each id of each complete sample once, in the context in which it was sampled, with its own logprob."""
    assert [sample.id for sample in samples] == [turn.id for turn in ledger.turns]
    known = {sample.id: sample for sample in samples}
    for turn in ledger.turns:
        audit_turn(turn, known[turn.id])
    exported = [shown(row) for row in Rollout([session_now(ledger)])]
    for row in exported:
        audit_row(row, known)
    trained = sorted(i for row in exported for i in compress(row.token_ids, row.loss_mask))
    assert trained == sorted(i for sample in samples if sample.complete for i in sample.whole[sample.start :])


def audit_row(row: Shown, known: Mapping[str, Sample], fresh: Callable[[int], bool] = lambda _id: True) -> None:
    """Every turn stands in its own context; the mask covers what is trained and `fresh`, and nothing else."""
    mask, logprobs = bytearray(len(row.token_ids)), float32s([0.0] * len(row.token_ids))
    end = 0
    for turn_id, start, end, trained in row.turns:
        sample = known[turn_id]
        assert (sample.start, len(sample.whole)) == (start, end)
        assert list(sample.whole) == list(row.token_ids[:end])  # with this, each prompt extends the turn before
        mask[start:end] = bytes(trained and fresh(i) for i in sample.whole[start:])
        logprobs[start:end] = sample.logprobs
    assert end == len(row.token_ids)
    assert list(mask) == list(row.loss_mask)
    assert list(logprobs) == list(row.logprobs)


def audit_turn(turn: Turn, sample: Sample) -> None:
    """Ids, logprobs and spans agree in number, and the turn stores what it added and no more."""
    completion = turn.completion
    assert len(completion.ids) == len(completion.logprobs) == len(sample.logprobs)
    bounds = [position for span in completion.spans for position in range(span.start, span.end)]
    assert bounds == list(range(len(completion.ids)))
    assert turn.prompt.length == sample.start
    own = sum(len(piece) for piece in turn.prompt.pieces if not isinstance(piece, tuple))
    assert turn.base is None or own == sample.start - turn.base.prompt.length


def audit_selection(
    ledger: Ledger, samples: Sequence[Sample], selection: Selection, fresh: frozenset[str] | None
) -> None:
    """Each turn is trained as its selection has it, or left out for a reason that holds; never both."""
    known = {sample.id: sample for sample in samples}
    stale = {
        i
        for turn in ledger.turns
        for span in turn.completion.spans
        for i in turn.completion.ids[span.start : span.end]
        if fresh is not None and span.version not in fresh
    }
    rollout = Rollout([session_now(ledger)], selection, fresh)
    rows, excluded = list(rollout), rollout.excluded(0)
    for row in rows:
        audit_row(shown(row), known, lambda i: i not in stale)
    trains = Counter(part.turn for row in rows for part in row.turns if part.trained)
    holds = Counter(part.turn for row in rows for part in row.turns)
    assert sorted(turn.id for turn in [*trains, *(left.turn for left in excluded)]) == sorted(known)
    for turn, count in trains.items():
        assert count == (1 if selection.shared == "once" else holds[turn])
    for left in excluded:
        _audit_exclusion(left, ledger, selection, stale, held=left.turn in holds)
    _audit_places(rows, selection)


def _audit_exclusion(left: Excluded, ledger: Ledger, selection: Selection, stale: set[int], *, held: bool) -> None:
    turn = left.turn
    match left.because:
        case "aborted":
            assert turn.status == "aborted"
            assert not selection.include_aborted
        case "train_false":
            assert not turn.labels.train
        case "undelivered":
            assert ledger.deliveries.of(turn) is False
            assert all(other.parent is not turn for other in ledger.turns)
        case "dropped":
            assert selection.dropped == "exclude"
        case "distribution":
            assert turn.sampling.distribution not in (selection.distributions or ())
        case "stale":
            assert stale.issuperset(turn.completion.ids)
        case other:
            assert other == "leaf"
            assert selection.leaves == "latest"
            assert not held


def _audit_places(rows: Sequence[Row], selection: Selection) -> None:
    """Rows count without a gap, those that continue something come after it, and their totals are the sums."""
    weights: Counter[int] = Counter()
    seen: dict[Turn, str] = {}
    for index, row in enumerate(rows):
        assert (row.index, row.rows) == (index, len(rows))
        new = [part.turn for part in row.turns if part.turn not in seen]
        parent = new[0].parent
        assert row.parent_id == (seen.get(parent) if parent else None)
        seen |= {turn: seen.get(turn, row.id) for turn in new}
        for i, weight in zip(row.token_ids, row.loss_weights or row.loss_mask, strict=True):
            weights[i] += weight  # type: ignore[assignment]  # parts of one
    total = sum(weights.values())
    assert all(isclose(row.rollout_trainable_tokens, total, rel_tol=1e-6) for row in rows)
    if selection.shared != "duplicate":
        assert all(isclose(weight, 1, rel_tol=1e-6) for weight in _positive(weights.values()))


def _positive(values: Iterable[float]) -> list[float]:
    return [value for value in values if value > 0]
