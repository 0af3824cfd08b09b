"""What makes a northbound dialect: a module with a name and these four functions."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

from gateway.core.turn import Turn
from gateway.core.types import TurnRequest
from gateway.errors import GatewayError
from gateway.wire.noise import Noise
from gateway.wire.pieces import Piece, Saying, TextOf


class AnswerStream(Protocol):
    """One streamed answer in the making: what is sent of it, in order."""

    def opening(self) -> bytes:
        """What comes first."""

    def say(self, pieces: Iterable[Piece]) -> Iterator[bytes]:
        """What is being said, in parts of a size to be sent."""

    def closing(self, turns: Sequence[Turn]) -> Iterator[bytes]:
        """What comes last, when the turns are recorded, in parts of a size to be sent."""

    def failure(self, error: GatewayError) -> bytes:
        """What comes last when the answer will not be complete."""


class Dialect(Protocol):
    """The single place that a protocol lives."""

    NAME: str
    """What tells it from the others: equal bodies of two dialects are different requests."""

    def decode(self, body: bytes, noise: Noise) -> TurnRequest:
        """The turn that a body asks for, and nothing of it that is `noise`."""

    def encode(self, turns: Sequence[Turn], request: TurnRequest, *, created_s: int, text_of: TextOf) -> bytes:
        """The answer of one call: the recorded turns of its choices, in order."""

    def stream(self, saying: Saying, request: TurnRequest, *, created_s: int, text_of: TextOf) -> AnswerStream:
        """The answer of one call, which is being said."""

    def encode_error(self, error: GatewayError) -> bytes:
        """An error in the dialect's own shape."""
