"""What makes a northbound dialect: a module with a name and these three functions."""

from collections.abc import Sequence
from typing import Protocol

from gateway.core.turn import Turn
from gateway.core.types import TurnRequest
from gateway.errors import GatewayError
from gateway.wire.noise import Noise


class Dialect(Protocol):
    """The single place that a protocol lives."""

    NAME: str
    """What tells it from the others: equal bodies of two dialects are different requests."""

    def decode(self, body: bytes, noise: Noise) -> TurnRequest:
        """The turn that a body asks for, and nothing of it that is `noise`."""

    def encode(self, turns: Sequence[Turn], request: TurnRequest, *, created_s: int) -> bytes:
        """The answer of one call: the recorded turns of its choices, in order."""

    def encode_error(self, error: GatewayError) -> bytes:
        """An error in the dialect's own shape."""
