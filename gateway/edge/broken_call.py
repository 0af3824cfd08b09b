"""A call that ended before its answer did: why, and whose fault that is."""

from dataclasses import dataclass

from gateway.core.resume import FAILURES
from gateway.core.types import CutReason
from gateway.edge.rank import Rank
from gateway.edge.running import EngineCall
from gateway.errors import EngineError, EngineLost, EngineUnavailable, GatewayError
from gateway.wire.collector import Collector
from gateway.wire.engine_facts import read_refusal

_WORDS: dict[CutReason, str] = {"stall": "it said nothing for too long", "lost": "the engine does not answer any more"}


@dataclass(frozen=True, slots=True)
class BrokenCall:
    """How a call ended too early."""

    reason: CutReason
    error: GatewayError
    """What the client is told if that is the end."""
    sampled: int = 0
    """How many ids it brought."""
    news: bool = False
    """Whether it speaks against the engine's health, of which that was not known."""


def is_misplaced(rank: Rank, error: GatewayError) -> bool:
    """Whether an engine says that it has no such rank: it has others than it had, and is to be asked anew."""
    there = read_refusal(error.message)
    return there is not None and rank.number >= there


def broken_call_of(collector: Collector, call: EngineCall, error: EngineError | None) -> BrokenCall:
    """How `call` ended, which failed with `error`, was broken off by us, or came to an end that is none."""
    if error is not None:
        reason: CutReason = "lost" if isinstance(error, EngineLost) else "engine_error"
        # To be busy is no failure.
        return BrokenCall(reason, error, collector.count, news=isinstance(error, EngineUnavailable))
    if call.interrupted:
        reason, words = call.interrupted, _WORDS.get(call.interrupted, call.interrupted)
        failure = EngineUnavailable(f"the call was broken off: {words}")
        return BrokenCall(reason, failure, collector.count, news=reason == "stall")
    reason = "no_finish"
    if collector.finish_reason:
        reason = "pause" if call.is_cut_by_its_engine else "abort"
    failure = EngineUnavailable("the engine aborted the call before the completion was finished")
    return BrokenCall(reason, failure, collector.count, news=reason in FAILURES)
