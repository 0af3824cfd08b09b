"""What is settled about one answer when it has its lease: the rank, the length that it may have, how it is sampled."""

from dataclasses import dataclass, replace

from gateway.core.budget import Limit
from gateway.core.sampling import SamplingRecord
from gateway.core.types import Answer, Completion, EndedBy, FinishReason
from gateway.edge.probe import Probes
from gateway.edge.rank import Rank
from gateway.errors import LogprobsNotExact
from gateway.wire.probe import PROCESSED_FLAG

_PLAIN = "temperature 1 and no top_p, top_k, min_p, penalties, logit_bias or min_tokens"


@dataclass(frozen=True, slots=True)
class SamplingPlan:
    """Where and how an answer is sampled."""

    rank: Rank
    limit: Limit
    sampling: SamplingRecord

    def ended_by(self, completion: Completion, answer: Answer) -> EndedBy:
        """How a complete turn ended."""
        if completion.finish_reason is FinishReason.LENGTH:
            return self.limit.bound
        return "tool_calls" if answer.message.tool_calls else "stop"

    async def proven(self, probes: Probes) -> "SamplingPlan":
        """The same, by what is known of the engine now.

        Where logprobs must be those of the distribution that is sampled from, an engine that has not told is waited
        for; elsewhere it is asked for the turns to come.

        Raises:
            LogprobsNotExact: they are not.
            EngineUnavailable: that is not found out yet.
        """
        engine, now = self.rank.engine, self._now()
        if now.sampling.hangs_on_mode:
            probes.begin(engine)
        if not probes.exact or (engine.logprobs.answered and now.sampling.logprobs_exact):
            return now
        if now.sampling.distribution == "greedy":
            raise LogprobsNotExact(
                "greedy sampling has no distribution that logprobs could be of: ask for a temperature above 0"
            )
        await probes.settle(engine)
        mode, reason, *_ = engine.logprobs
        proven = self._now()
        if proven.sampling.logprobs_exact:
            return proven
        why, remedy = "the engine's are those of the model", f"start vLLM with {PROCESSED_FLAG}, or ask for {_PLAIN}"
        if mode == "unknown":
            why, remedy = (
                f"it is not known what the engine's are ({reason})",
                f"start another vLLM, with {PROCESSED_FLAG}",
            )
        elif mode == "processed":
            why, remedy = "nobody knows what logits processors do with extra_args", "leave them out"
        raise LogprobsNotExact(
            f"the logprobs would not be those of the distribution that is sampled from, since {why}: {remedy}"
        )

    def _now(self) -> "SamplingPlan":
        return replace(self, sampling=replace(self.sampling, logprobs_mode=self.rank.engine.logprobs.mode))
