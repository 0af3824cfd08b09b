"""What an answer says, in pieces fit to be sent as they come."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from gateway.core.types import Delta, Evidence, ToolCall

PIECE_CHARS = 4096
"""Longest text of one piece: what is longer is said in several."""

TextOf = Callable[[int], tuple[str, bytes]]
"""The text of a token id, and its bytes, which need not be valid UTF-8 alone."""


class Saying(Protocol):
    """A call whose answer is said in pieces."""

    @property
    def turn_ids(self) -> Sequence[str]:
        """One for each choice."""

    @property
    def prompt_ids(self) -> Sequence[int]:
        """What the answer goes on from."""

    @property
    def evidence(self) -> Sequence[Evidence]:
        """Of each choice, what was sampled so far."""


@dataclass(frozen=True, slots=True)
class Piece:
    """Something that one choice of a call has said."""

    index: int
    kind: Literal["reasoning", "content", "call", "arguments"]
    """``arguments`` go on with the last call."""
    text: str
    upto: int
    """How many sampled ids have been read by now."""
    call: ToolCall | None = None


def pieces(index: int, deltas: Iterable[Delta], upto: int) -> Iterator[Piece]:
    """What the deltas of one choice say, in pieces that are not too long."""
    for delta in deltas:
        if delta.call:
            arguments = _cut(delta.call.arguments)
            yield Piece(index, "call", next(arguments, ""), upto, delta.call)
            yield from (Piece(index, "arguments", text, upto) for text in arguments)
        else:
            yield from (Piece(index, "reasoning", text, upto) for text in _cut(delta.reasoning))
            yield from (Piece(index, "content", text, upto) for text in _cut(delta.content))


def _cut(text: str) -> Iterator[str]:
    return (text[start : start + PIECE_CHARS] for start in range(0, len(text), PIECE_CHARS))


def joined(pieces: Iterable[Piece]) -> list[Piece]:
    """The same said in fewer pieces: neighbours of one kind are one, as long as that is not too long."""
    told: list[Piece] = []
    for piece in pieces:
        last = told[-1] if told else None
        goes_on = last is not None and (last.index, last.kind) == (piece.index, piece.kind) and piece.call is None
        if last is not None and goes_on and len(last.text) + len(piece.text) <= PIECE_CHARS:
            told[-1] = Piece(last.index, last.kind, last.text + piece.text, piece.upto)
        else:
            told.append(piece)
    return told
