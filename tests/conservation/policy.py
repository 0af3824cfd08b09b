"""A policy so small that its gradient can be written by hand, and yet each of its logits hangs on the whole context."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


class TinyPolicy:
    """``logits = head · tanh(state)``, where each id fades from the state as others follow it.

    `parameters` are one vector, so that finite differences can be taken of each.
    """

    def __init__(self, size: int, *, width: int = 6, seed: int = 0) -> None:
        self.size, self.width = size, width
        self.parameters: Floats = np.random.default_rng(seed).normal(size=2 * size * width) * 0.5
        self._fading = np.linspace(0.6, 0.97, width)

    def _parts(self) -> tuple[Floats, Floats]:
        embedding, head = np.split(self.parameters, 2)
        return embedding.reshape(self.size, self.width), head.reshape(self.size, self.width)

    def _forward(self, ids: Sequence[int]) -> tuple[Floats, Floats]:
        """Activations and log-probabilities before each id; shapes ``(L, width)`` and ``(L, size)``."""
        embedding, head = self._parts()
        state, states = np.ones(self.width), []
        for token_id in ids:
            states.append(state)
            state = self._fading * state + embedding[token_id]
        active = np.tanh(np.array(states))
        logits = active @ head.T
        logits -= logits.max(axis=1, keepdims=True)
        return active, logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))

    def likelihood(self, ids: Sequence[int], weights: Floats) -> float:
        """The weighted sum of the log-probabilities of `ids`."""
        _, logprobs = self._forward(ids)
        return float(weights @ logprobs[np.arange(len(ids)), list(ids)])

    def gradient(self, ids: Sequence[int], weights: Floats) -> Floats:
        """Of that sum, in one pass over the row; of the shape of `parameters`."""
        active, logprobs = self._forward(ids)
        embedding, head = self._parts()
        wanted = -np.exp(logprobs) * weights[:, None]
        wanted[np.arange(len(ids)), list(ids)] += weights
        of_state = (wanted @ head) * (1 - active**2)
        of_embedding, later = np.zeros_like(embedding), np.zeros(self.width)
        for position in range(len(ids) - 1, -1, -1):
            of_embedding[ids[position]] += later
            later = of_state[position] + self._fading * later
        return np.concatenate([of_embedding.ravel(), (wanted.T @ active).ravel()])
