"""The logprobs that the sim reports: of a made-up distribution, which a temperature changes as it changes any."""

import math
import struct
from collections.abc import Sequence
from typing import Literal

Mode = Literal["raw_logprobs", "processed_logprobs"]
"""As vLLM's flag of this name: those of the model, or those of what was sampled from, which has a temperature."""


def logprob(position: int, token_id: int) -> float:
    """The logprob of `token_id` at `position` of prompt and output: negative, a float32, the same in every run.

    That is at temperature 1, and at any other in raw mode.
    """
    return _float32(_logprob(position, token_id))


def logprobs(position: int, token_id: int, count: int, temperature: float) -> Sequence[float]:
    """Those of `token_id` and of the `count` - 1 tokens that are likeliest after it, each half as likely as the last.

    Together they are no more than certain, at every temperature.
    """
    first, warmth = _logprob(position, token_id), 1 / (temperature or 1.0)  # vLLM's greedy logprobs are those at 1
    own = math.exp(first)
    others = min(own, 1 - own)
    left = 1 - own - others  # taken for one more token that nobody asks about
    values = [first, *(math.log(others) - rank * math.log(2) for rank in range(1, count))]
    if warmth == 1:
        return [_float32(value) for value in values]
    top = max(own, left)
    total = (own / top) ** warmth + (others / top) ** warmth / (2**warmth - 1) + (left / top) ** warmth
    return [_float32(min(0.0, (value - math.log(top)) * warmth - math.log(total))) for value in values]


def _logprob(position: int, token_id: int) -> float:
    return -(1 + (31 * position + token_id) % 997) / 97


def _float32(value: float) -> float:
    rounded: float = struct.unpack("f", struct.pack("f", value))[0]
    return rounded
