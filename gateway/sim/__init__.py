"""A simulated vLLM, for tests of whatever talks to one, and for trying things out without a GPU.

A request may script the ids that the engine emits; without a script it thinks, calls tools and answers by itself, if
it has a tokenizer. Faults make it go wrong in chosen ways. It has ranks with queues and prefix caches, speaks the JSON
of the release it stands for, and keeps a journal of what it was sent and how far each answer got. It knows nothing of
the gateway: the two meet only on the wire.
"""

from gateway.sim.logprobs import logprob
from gateway.sim.server import FAULTS, JOURNAL, RENDER_FAULTS, RENDERS, create_sim

__all__ = ["FAULTS", "JOURNAL", "RENDERS", "RENDER_FAULTS", "create_sim", "logprob"]
