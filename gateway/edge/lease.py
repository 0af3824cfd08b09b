"""What a call holds while an engine works for it, and where it says how that went."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from gateway.core.pool import Affinity
from gateway.edge.rank import Rank
from gateway.edge.ticket import Ticket

if TYPE_CHECKING:
    from gateway.edge.backends import Backends


@dataclass(slots=True, eq=False)
class Lease:
    """One call's hold of a rank, from `Backends.lease`; Mutable: it notes that ids have come."""

    rank: Rank
    affinity: Affinity
    _ticket: Ticket
    _backends: "Backends"
    _heard: bool = False

    @property
    def waited_s(self) -> float:
        """How long the call has waited for it, but for pauses; what its demand had waited counts, too."""
        return self._ticket.waited_s

    def heard(self) -> None:
        """The first ids have come: the prompt is prefilled. May be repeated."""
        if not self._heard:
            self._heard = True
            self._backends.heard(self._ticket)

    def cached(self, tokens: int) -> None:
        """The call has been broken off by nobody's fault, and a context of `tokens` is cached on the rank."""
        self._backends.places.cached(self._ticket, tokens)

    def ended(self, tokens: int) -> None:
        """The call has ended well, and a context of `tokens` is cached on the rank."""
        self.cached(tokens)
        self._backends.checks.answered(self.rank)

    def failed(self) -> None:
        """The call has failed by the engine's fault, or the way to it: the session's next one goes elsewhere first."""
        self.affinity.shuns = self.rank.name
        self._backends.checks.failed(self.rank)
