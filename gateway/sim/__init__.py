"""A small scripted stand-in for a vLLM engine, for tests of whatever talks to one.

The test says which ids the engine emits and what goes wrong on the way; the sim wraps them in the JSON of the vLLM
release it stands for, and keeps a journal of what it was sent and how far each answer got. It knows nothing of the
gateway: the two meet only on the wire.
"""

from gateway.sim.engine import logprob
from gateway.sim.server import FAULTS, JOURNAL, create_sim

__all__ = ["FAULTS", "JOURNAL", "create_sim", "logprob"]
