"""What is settled about a session beside its messages: who it belongs to, how it samples, what it may use up."""

from dataclasses import dataclass, field, replace
from typing import Literal

from gateway.core.budget import Budget
from gateway.core.sampling import overridden, said
from gateway.core.types import JsonObject, Sampling, TurnRequest

SamplingRule = Literal["agent", "locked"]
"""Whose temperature and truncation count: the agent's, or nobody's: temperature 1, and nothing truncated."""
ClientSeed = Literal["keep", "drop"]
"""What becomes of a seed that an agent sends: the members of a group that all send one would all be alike."""
_LOCKED = Sampling(temperature=1.0, top_p=1.0, top_k=0, min_p=0.0)


@dataclass(frozen=True, slots=True)
class Terms:
    """The terms of one session."""

    group_id: str | None = None
    """The sessions that are compared with each other, such as the attempts at one task, share it."""
    rollout_id: str | None = None
    """The sessions that together are one attempt share it; ``None`` where the session is all of it."""
    metadata: JsonObject = field(default_factory=dict)
    """The harness' own words; nothing here reads them."""
    sampling: Sampling = field(default_factory=Sampling)
    """Parameters for what a request leaves out."""
    forced: Sampling = field(default_factory=Sampling)
    """Parameters that win over what a request says."""
    budget: Budget = field(default_factory=Budget)
    sampling_rule: SamplingRule | None = None
    """``None`` is as the gateway has it, and so below."""
    client_seed: ClientSeed | None = None

    def over(self, defaults: "Terms") -> "Terms":
        """These terms, and where they are silent on what a gateway has for all its sessions, those of `defaults`."""
        return replace(
            self,
            budget=self.budget.over(defaults.budget),
            sampling_rule=self.sampling_rule or defaults.sampling_rule,
            client_seed=self.client_seed or defaults.client_seed,
        )

    def governed(self, request: TurnRequest) -> TurnRequest:
        """A request as this session lets it be sampled. A forced `min_tokens` raises a limit that would not let it."""
        asked = request.sampling
        heard = asked if self.client_seed == "keep" else replace(asked, seed=None)
        governed = replace(heard, **said(self.sampling) | said(heard) | said(self.forced))
        if governed.max_tokens is not None and self.forced.min_tokens is not None:
            governed = replace(governed, max_tokens=max(governed.max_tokens, self.forced.min_tokens))
        most = governed.max_tokens
        if most is not None and governed.min_tokens is not None and governed.min_tokens > most:
            governed = replace(governed, min_tokens=most)
        if self.sampling_rule == "locked":
            governed = replace(governed, **said(_LOCKED))
        return replace(request, sampling=governed, overridden=overridden(asked, governed))
