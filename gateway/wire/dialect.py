"""What makes a northbound dialect: a module with these three functions."""

from typing import Protocol

from gateway.core.turn import Turn
from gateway.core.types import TurnRequest
from gateway.errors import GatewayError
from gateway.wire.noise import Noise


class Dialect(Protocol):
    """The single place that a protocol lives."""

    def decode(self, body: bytes, noise: Noise) -> TurnRequest:
        """The turn that a body asks for, and nothing of it that is `noise`."""

    def encode(self, turn: Turn, request: TurnRequest, *, created_s: int) -> bytes:
        """The answer to a recorded turn."""

    def encode_error(self, error: GatewayError) -> bytes:
        """An error in the dialect's own shape."""
