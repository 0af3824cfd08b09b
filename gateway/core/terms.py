"""What is settled about a session beside its messages: who it belongs to, how it samples, what it may use up."""

from dataclasses import dataclass, field, fields, replace
from typing import Any

from gateway.core.budget import Budget
from gateway.core.types import JsonObject, Sampling


def said(sampling: Sampling) -> dict[str, Any]:
    """The parameters that are set, by name. A flag that is false is set; an empty list of stops is not."""
    values = {parameter.name: getattr(sampling, parameter.name) for parameter in fields(Sampling)}
    return {name: value for name, value in values.items() if value is not None and value != ()}


@dataclass(frozen=True, slots=True)
class Terms:
    """The terms of one session."""

    group_id: str | None = None
    """The sessions that are compared with each other, such as the attempts at one task, share it."""
    metadata: JsonObject = field(default_factory=dict)
    """The harness' own words; nothing here reads them."""
    sampling: Sampling = field(default_factory=Sampling)
    """Parameters for what a request leaves out."""
    forced: Sampling = field(default_factory=Sampling)
    """Parameters that win over what a request says."""
    budget: Budget = field(default_factory=Budget)

    def applied(self, asked: Sampling) -> Sampling:
        """How a request samples in this session. A forced `min_tokens` raises a limit that would not let it be."""
        governed = replace(asked, **said(self.sampling) | said(asked) | said(self.forced))
        most, least = governed.max_tokens, self.forced.min_tokens
        return governed if most is None or least is None else replace(governed, max_tokens=max(most, least))
