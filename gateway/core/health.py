"""Whether a rank takes turns, as a table: what was seen of it, and what that makes of it.

Turns tell in passing, and checks tell though there are no turns. A check only says that the server answers, so that
a rank that was down must also sample a token before it takes turns again, and one that fails turn after turn goes
down however well it answers checks.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

HealthState = Literal["up", "suspect", "down", "probing"]
HealthEvent = Literal["answered", "failed", "checked", "unreachable", "proven", "unproven"]
"""A turn was `answered` or `failed` by the engine's fault; an active check found it there (`checked`) or
`unreachable`; a token sampled for no one but us came with its logprob (`proven`), or did not (`unproven`)."""

MOST_FAILURES = 3
"""So many turns that fail in a row take a rank out of service; one alone never does."""


@dataclass(frozen=True, slots=True)
class Health:
    """How a rank is. A new one is up: nothing is known against it."""

    state: HealthState = "up"
    failures: int = 0
    """Turns that failed in a row."""

    @property
    def is_in_service(self) -> bool:
        """Whether turns may go there."""
        return self.state in ("up", "suspect")

    def after(self, event: HealthEvent) -> "Health":
        """How it is when that was seen, too."""
        if event == "failed":
            failures = self.failures + 1
            falls = self.is_in_service and failures >= MOST_FAILURES
            return Health("down" if falls else _AFTER[self.state].get(event, self.state), failures)
        state = _AFTER[self.state].get(event, self.state)
        forgiven = event == "proven" or (event == "answered" and self.is_in_service)
        return Health(state, 0 if forgiven else self.failures)


_AFTER: Mapping[HealthState, Mapping[HealthEvent, HealthState]] = {
    "up": {"failed": "suspect", "unreachable": "down"},
    "suspect": {"answered": "up", "checked": "up", "unreachable": "down"},
    "down": {"checked": "probing"},
    "probing": {"proven": "up", "unproven": "down", "unreachable": "down"},
}
"""What changes; anything else leaves a rank as it is. A turn that began before its rank went down says nothing of how
that is now, be it answered or failed."""
