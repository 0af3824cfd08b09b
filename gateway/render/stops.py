"""Where a stop string ends a completion, and what of it the client sees.

An engine in tokens mode returns ids and no text, and keeps the whole of the token that completed the stop.
"""

from bisect import bisect_left, bisect_right
from dataclasses import dataclass

from gateway.core.types import Sampling
from gateway.render.protocol import Tokenizer


@dataclass(frozen=True, slots=True)
class StopMatch:
    """A stop string found in a completion."""

    kept: int
    """Number of sampled ids up to the one that completed the stop; later ids are discarded."""
    shown: list[int]
    """Ids of the text before the cut: sampled ids as far as they go, the rest of a cut token encoded anew."""
    cut: bool
    """Whether the last kept id says more than the stop: text that the model sampled and nobody will see."""


def find_stop(tokenizer: Tokenizer, ids: list[int], sampling: Sampling) -> StopMatch | None:
    """The first stop string of `sampling` in the text of `ids`; ``None`` if there is none.

    As in vLLM, text sampled within the first `min_tokens` cannot complete a stop.
    """
    if not sampling.stop:
        return None
    floor = len(tokenizer.decode(ids[: sampling.min_tokens or 0]).rstrip("\ufffd"))  # half a character is not there
    text = tokenizer.decode(ids)
    starts = {stop: text.find(stop, max(0, floor - len(stop) + 1)) for stop in sampling.stop}
    found = {stop: start + len(stop) for stop, start in starts.items() if start >= 0}
    if not found:
        return None
    stop, end = min(found.items(), key=lambda item: item[1])
    kept = bisect_left(range(len(ids)), True, key=lambda k: tokenizer.decode(ids[:k]).startswith(text[:end]))
    visible = text[: end if sampling.include_stop_str_in_output else end - len(stop)]
    whole = bisect_right(range(kept + 1), len(visible), key=lambda k: len(tokenizer.decode(ids[:k]))) - 1
    while not visible.startswith(tokenizer.decode(ids[:whole])):  # half of a character
        whole -= 1
    tail = visible[len(tokenizer.decode(ids[:whole])) :]
    shown = ids[:whole] + (tokenizer.encode(tail, add_special_tokens=False) if tail else [])
    return StopMatch(kept, shown, cut=text[:end] != tokenizer.decode(ids[:kept]))
