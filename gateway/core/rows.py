"""Training rows: the turns of a segment path, laid out id by id.

A row is made when it is asked for: rows repeat their context, so all together can be as large as the square of what was
said. One costs its own length.
"""

from array import array
from bisect import bisect
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

from gateway.core.fate import Fate
from gateway.core.segments import Excluded, Segments, SessionAt
from gateway.core.selection import Masked, Selection
from gateway.core.side_arrays import SideArray, stitched
from gateway.core.turn import Turn
from gateway.core.types import JsonObject, Message, VersionSpan, float32s


@dataclass(frozen=True, slots=True)
class RowTurn:
    """Where one turn lies in a row."""

    turn: Turn
    fate: Fate
    start: int
    """Position of the turn's first sampled id."""
    end: int
    """Position after its last."""
    masked_because: Masked | None
    """Why this row does not train the turn; ``None`` if it does."""

    @property
    def trained(self) -> bool:
        """Whether this row trains the turn, or what of it is not stale."""
        return self.masked_because is None

    def spans(self) -> list[VersionSpan]:
        """Its policy versions, at positions in the row."""
        return [
            VersionSpan(span.version, self.start + span.start, self.start + span.end, span.source)
            for span in self.turn.completion.spans
        ]


@dataclass(frozen=True, slots=True)
class Row:
    """One segment path, ready to train on."""

    session: JsonObject
    """What its session says of all its rows."""
    index: int
    """Its place among the rows of its rollout."""
    rows: int
    """How many there are."""
    rollout_trainable_tokens: int
    """The sum of their masks, or of their weights where shared turns are split."""
    parent_id: str | None
    """The first row that holds what this one's first new turn continues; ``None`` where it continues nothing."""
    token_ids: "array[int]"
    """The last prompt and completion; shape ``(L,)``."""
    loss_mask: "array[int]"
    """1 where the id was sampled and this row trains it, else 0; shape ``(L,)``."""
    loss_weights: "array[float] | None"
    """Where shared turns are split: 1/k where k rows train the id, 0.0 where the mask is 0; shape ``(L,)``."""
    logprobs: "array[float]"
    """Log-probability of each sampled id in nats, 0.0 where nothing was sampled; shape ``(L,)``."""
    turns: tuple[RowTurn, ...]
    side_arrays: Mapping[str, SideArray | None]
    """By name; ``None`` where a turn has none of that name, though it was asked for or another has."""
    messages: Sequence[Message]
    """What was said up to the end of the row, without the leading system messages."""
    selection: Selection
    stale_versions: tuple[str, ...]
    """Policy versions of its turns whose ids the selection masks."""

    @property
    def arrays(self) -> "dict[str, array[int] | array[float]]":
        """Those that have a number for each id, by name."""
        weights = {} if self.loss_weights is None else {"loss_weights": self.loss_weights}
        return {"token_ids": self.token_ids, "loss_mask": self.loss_mask, "logprobs": self.logprobs, **weights}

    @property
    def last(self) -> Turn:
        """The one that the row ends in: the row has its id, and its prompt and completion are all of the row."""
        return self.turns[-1].turn

    @property
    def id(self) -> str:
        """The id of the last turn; a row grows with its last turn, and then has another id."""
        return self.last.id


class Rollout:
    """The rows of the sessions that make one rollout, as of one moment: session by session, parents first.

    `fresh` are the policy versions that `max_staleness` leaves; ``None`` where age does not matter. `side_arrays` are
    those that were asked for: each row tells of them, also where no turn has any.
    """

    def __init__(
        self,
        sessions: Sequence[SessionAt],
        selection: Selection | None = None,
        fresh: frozenset[str] | None = None,
        side_arrays: Sequence[str] = (),
    ) -> None:
        self.selection = selection or Selection()
        self._side_arrays = side_arrays
        self._segments = [Segments(session, self.selection, fresh) for session in sessions]
        self._starts = [0, *accumulate(len(segments.leaves) for segments in self._segments)]
        self._trainable_tokens = sum(segments.trainable_tokens() for segments in self._segments)

    def __len__(self) -> int:
        return self._starts[-1]

    def __iter__(self) -> Iterator[Row]:
        return (self[index] for index in range(len(self)))

    def of_session(self, position: int) -> range:
        """The places of one session's rows."""
        return range(self._starts[position], self._starts[position + 1])

    def excluded(self, position: int) -> Sequence[Excluded]:
        """The turns of one session that no row trains, oldest first."""
        return list(self._segments[position].excluded())

    def __getitem__(self, index: int) -> Row:
        position = bisect(self._starts, index) - 1
        segments, number = self._segments[position], index - self._starts[position]
        leaf = segments.leaves[number]
        ids, turns = leaf.sequence.ids(), _turns(segments, number)
        mask = _mask(segments, turns, len(ids))
        history = segments.source.ledger.history(leaf)
        versions = dict.fromkeys(span.version for part in turns for span in part.turn.completion.spans)
        return Row(
            session=segments.source.session,
            index=index,
            rows=len(self),
            rollout_trainable_tokens=self._trainable_tokens,
            parent_id=_parent_id(segments, turns, number),
            token_ids=ids,
            loss_mask=mask,
            loss_weights=_weights(segments, turns, mask) if self.selection.shared == "split" else None,
            logprobs=_logprobs(turns, len(ids)),
            turns=turns,
            side_arrays=_side_arrays(turns, self._side_arrays),
            messages=history if leaf.status == "complete" else history[:-1],  # an aborted turn has answered nothing
            selection=self.selection,
            stale_versions=tuple(version for version in versions if segments.is_stale(version)),
        )


def _turns(segments: Segments, row: int) -> tuple[RowTurn, ...]:
    places = ((turn, turn.prompt.length) for turn in segments.leaves[row].segment())
    return tuple(
        RowTurn(turn, segments.fate(turn), start, start + len(turn.completion.ids), segments.masked(turn, row))
        for turn, start in places
    )


def _parent_id(segments: Segments, turns: Sequence[RowTurn], row: int) -> str | None:
    first = next(part.turn for part in turns if segments.first_row(part.turn) == row)
    parent = segments.first_row(first.parent)
    return None if parent is None else segments.leaves[parent].id


def _mask(segments: Segments, turns: Sequence[RowTurn], length: int) -> "array[int]":
    mask = array("B", bytes(length))
    for span in (span for part in turns if part.trained for span in part.spans()):
        if not segments.is_stale(span.version):
            mask[span.start : span.end] = array("B", b"\1") * (span.end - span.start)
    return mask


def _weights(segments: Segments, turns: Sequence[RowTurn], mask: "array[int]") -> "array[float]":
    weights = float32s([0.0]) * len(mask)
    for part in turns:
        each = 1 / segments.rows_of(part.turn)
        weights[part.start : part.end] = float32s([each * trained for trained in mask[part.start : part.end]])
    return weights


def _logprobs(turns: Sequence[RowTurn], length: int) -> "array[float]":
    logprobs = float32s([0.0]) * length
    for part in turns:
        logprobs[part.start : part.end] = part.turn.completion.logprobs
    return logprobs


def _side_arrays(turns: Sequence[RowTurn], asked: Sequence[str]) -> dict[str, SideArray | None]:
    names = sorted({*asked} | {name for part in turns for name in part.turn.completion.side_arrays})
    places = [(part.start, part.end, part.turn.completion.side_arrays) for part in turns]
    return {name: stitched(name, [(start, end, held.get(name)) for start, end, held in places]) for name in names}
