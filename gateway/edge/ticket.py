"""One who waits for a rank, and with whom: the calls that the same ranks suit. Mutable: `Queues` writes it."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from gateway.core.line import Line, Waiting
from gateway.core.residency import Stay
from gateway.edge.place import Place
from gateway.errors import GatewayError


class Kind(NamedTuple):
    """What a call wants of a rank: calls of one kind suit the same ones."""

    model: str | None
    """``None`` where any will do, or no engine lists it."""
    rank_number: int | None
    """``None`` where any will do, or there is none of that number."""
    window: int | None
    """The shortest context of an engine here that holds it, in tokens; ``None`` where none does."""


@dataclass(slots=True, eq=False)
class Ticket(Waiting):
    """One call that wants a rank, waits for one, or holds it."""

    outcome: "asyncio.Future[bool]" = field(default_factory=lambda: asyncio.get_running_loop().create_future())
    """Whether it holds a rank; false where no rank takes turns, and somebody should ask."""
    place: Place | None = None
    """The rank that it holds, or that it counts as waiting for."""
    queue: "Queue | None" = None
    """Where it stands."""
    stay: Stay | None = None
    """Its part in the rank's KV cache, while it holds the rank."""
    prefill_tokens: int = 0
    since_s: float = 0.0
    waited_s: float = 0.0
    """How long it has waited before `since_s`, but for pauses; what its demand had waited counts, too."""
    timer: asyncio.TimerHandle | None = None

    def tell(self, failure: GatewayError | None = None, *, held: bool = False) -> None:
        """Tell who waits how it came out, if it is still there."""
        if self.outcome.done():
            return
        if failure is not None:
            self.outcome.set_exception(failure)
        else:
            self.outcome.set_result(held)


@dataclass(slots=True, eq=False)
class Queue:
    """Those who wait for the same ranks."""

    kind: Kind | Place
    """What they want in common; or the one rank that they wait for, since their sessions live there."""
    admits: bool
    """Whether they are new sessions, for which there must be room in the KV cache."""
    large: bool
    """Whether they are of those that are too large to share a rank by their prompts alone."""
    places: Sequence[Place]
    """Any of them will do, as long as others do not take turns, or do so again."""
    line: Line[Ticket] = field(default_factory=Line)
