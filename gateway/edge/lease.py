"""What is settled about one answer when it has its lease: the rank, the length that it may have, how it is sampled."""

from dataclasses import dataclass, replace

from gateway.core.budget import Limit
from gateway.core.sampling import SamplingRecord
from gateway.core.types import Answer, Completion, EndedBy, FinishReason
from gateway.edge.backends import Rank
from gateway.edge.probe import Probes
from gateway.errors import LogprobsNotExact
from gateway.wire.probe import PROCESSED_FLAG

_PLAIN = "temperature 1 and no top_p, top_k, min_p, penalties, logit_bias or min_tokens"


@dataclass(frozen=True, slots=True)
class Lease:
    """Where and how an answer is sampled."""

    rank: Rank
    limit: Limit
    sampling: SamplingRecord

    def ended_by(self, completion: Completion, answer: Answer) -> EndedBy:
        """How a complete turn ended."""
        if completion.finish_reason is FinishReason.LENGTH:
            return self.limit.bound
        return "tool_calls" if answer.message.tool_calls else "stop"

    async def proven(self, probes: Probes) -> "Lease":
        """The same, when the logprobs will be those of the distribution that is sampled from.

        Raises:
            LogprobsNotExact: they will not.
            EngineUnavailable: that is not found out yet.
        """
        engine, sampling = self.rank.engine, self.sampling
        if sampling.logprobs_exact:
            return self
        if sampling.distribution == "greedy":
            raise LogprobsNotExact(
                "greedy sampling has no distribution that logprobs could be of: ask for a temperature above 0"
            )
        await probes.settle(engine)
        mode, reason, _ = engine.logprobs
        proven = replace(self, sampling=replace(sampling, logprobs_mode=mode))
        if proven.sampling.logprobs_exact:
            return proven
        why = f"it is not known what the engine's are ({reason})" if reason else "the engine's are those of the model"
        raise LogprobsNotExact(
            f"the logprobs would not be those of the distribution that is sampled from, since {why}: start vLLM with "
            f"{PROCESSED_FLAG}, or ask for {_PLAIN}"
        )
