"""Of what an engine returns logprobs, found out by how they behave: asked the same at two temperatures.

vLLM's default is `raw_logprobs`: those of the model, at temperature 1, whatever was sampled from. With
``--logprobs-mode processed_logprobs`` they are those of the distribution that a token was sampled from, so that at
temperature 2 the gaps between the same tokens are half as wide. No route of it says which.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

from gateway.core.sampling import LogprobsMode
from gateway.core.types import Completion, Sampling, TurnRequest
from gateway.wire.collector import MISSING_LOGPROB
from gateway.wire.generate import encode_request

TEMPERATURES = (1.0, 2.0)
ALTERNATIVES = 4
"""Tokens to ask for beside the sampled one: `Collector` takes it."""
PROCESSED_FLAG = "--logprobs-mode processed_logprobs"

_SMALLEST_GAP = 1e-3
"""Nats. Logprobs are float32, so that below it a ratio says little; tiny models in tests have gaps of 5e-3."""
_TOLERANCE = 0.1
"""How far from what is expected a ratio may be: kernels do not compute the same to the last bit each time."""
_ROUNDING = 1e-3
_LEAST_TOP = -math.log(1 << 20)
"""The likeliest of N tokens is not less likely than 1/N, and no model has as many."""

_TOLD_SINCE = (0, 22)
"""The release of vLLM since which alternatives have ids of their own."""


class LogprobsFinding(NamedTuple):
    """What is known of the logprobs that an engine returns."""

    mode: LogprobsMode
    reason: str = ""
    """Why it is unknown; empty when it is not."""
    answered: bool = True
    """Whether the engine has told all that it can; if not, another time may tell more."""
    is_usable: bool = True
    """Whether it did not answer as no engine that we know does, which does not change within seconds."""

    @property
    def weight(self) -> tuple[bool, bool, bool]:
        """How much it says: a known mode, then that it has answered, then more than untold; compared in that order.

        What says less takes nothing from what is known.
        """
        return self.mode in ("processed", "raw"), self.answered, self.mode != "untold"


NOT_ASKED = LogprobsFinding("untold", "it was not asked yet", answered=False)


def unknown_by(version: tuple[int, int] | None) -> LogprobsFinding | None:
    """The finding about a release that cannot tell, which need not be asked."""
    old = version is not None and version < _TOLD_SINCE
    return LogprobsFinding("unknown", "it gives all alternatives one id: vLLM 0.22 or later tells") if old else None


def encode_probe(ids: Sequence[int], temperature: float) -> bytes:
    """The body of one call of a probe."""
    # Engines that return sampling masks insist on a top_k; among those that it leaves, gaps are what they were.
    sampling = Sampling(temperature=temperature, top_k=ALTERNATIVES + 1)
    request = TurnRequest((), sampling=sampling, top_logprobs=ALTERNATIVES)
    return encode_request(ids, request, max_tokens=1, stop_ids=())


def mode_of(cold: Completion, warm: Completion) -> LogprobsFinding:
    """What two answers to the same prompt say, at the two temperatures."""
    first, second = _named(cold), _named(warm)
    if any(sum(map(math.exp, named.values())) > 1 + _ROUNDING for named in (first, second)):
        return LogprobsFinding("unknown", "what it calls logprobs are none: together they are more than certain")
    if any(max(named.values()) < _LEAST_TOP for named in (first, second) if named):
        return LogprobsFinding("unknown", "what it calls logprobs are none: the likeliest is too unlikely")
    both = sorted(first.keys() & second.keys(), key=first.__getitem__)
    if len(both) < 2:
        return LogprobsFinding("unknown", "it did not name the same tokens twice")
    top = both[-1]
    gaps = [(first[top] - first[token], second[top] - second[token]) for token in both[:-1]]
    widest = gaps[0][0]
    if widest < _SMALLEST_GAP:
        return LogprobsFinding("unknown", "the likeliest tokens are all as likely")
    ratios = [after / before for before, after in gaps if before > widest / 2]
    for mode, expected in _EXPECTED:
        if all(abs(ratio - expected) <= _TOLERANCE for ratio in ratios):
            return LogprobsFinding(mode)
    reason = f"at twice the temperature gaps between logprobs were {ratios[0]:.2f} times as wide"
    return LogprobsFinding("unknown", reason)


_EXPECTED: Sequence[tuple[LogprobsMode, float]] = (("processed", TEMPERATURES[0] / TEMPERATURES[1]), ("raw", 1.0))


def _named(answer: Completion) -> dict[int, float]:
    """The tokens that an answer names for its first id, and what it says of them."""
    assert answer.alternatives is not None  # they were asked for, or there was no answer
    named = answer.alternatives.most_likely(0, answer.alternatives.width)
    return {token_id: value for token_id, value in named if value > MISSING_LOGPROB}
