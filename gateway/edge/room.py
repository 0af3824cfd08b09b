"""Which ranks have room for another turn, as those who wait are looked through in their order, once.

Mutable state: the attributes of `Room`, which lives for one look.
"""

from collections.abc import Sequence

from gateway.edge.place import Place
from gateway.edge.places import Places
from gateway.edge.ticket import Queue, Ticket

_MOST_PASSED = 256
"""So many new sessions are passed over at one look, so that it takes little time however many wait."""


class Room:
    """The room that is left, and for whom it is kept free.

    Who may not go yet has the rank that it counts as waiting for kept free: no smaller call overtakes it there. A new
    session for which there is no room in that rank's cache keeps back new sessions only; those behind it may go to
    other ranks. One that is too large to share a rank has one kept free, and no more than one is kept so.
    """

    def __init__(self, places: Places) -> None:
        self._places = places
        self._full = set[Place]()
        self._closed = set[Place]()
        # To new sessions.
        self._emptying: Place | None = None
        self._passed = 0
        self._open: dict[Queue, Sequence[Place]] = {}
        self._headroom: dict[Queue, float] = {}
        # The most that is left on a rank for a queue; both are as long as no rank is given, or shut.

    def of(self, queue: Queue, ticket: Ticket) -> Place | None:
        """Where the first of a queue may go now."""
        places = self._places
        if queue.admits and places.residency.expected(ticket.demand.prompt_tokens) > self._most(queue):
            free = []
        else:
            free = [place for place in self._opened(queue) if places.fit(place, ticket)]
            free = [place for place in free if places.house(place, ticket)] if queue.admits else free
        if free:
            self._headroom.clear()
            return places.pick(free, ticket.affinity)
        self._keep_free(queue, ticket)
        return None

    def may_pass(self, queue: Queue) -> bool:
        """Whether the one behind the first of a queue may go, though that may not.

        Of those that are too large to share a rank none may.
        """
        self._passed += queue.admits and not queue.large
        return queue.admits and not queue.large and self._passed <= _MOST_PASSED and bool(self._opened(queue))

    def _opened(self, queue: Queue) -> Sequence[Place]:
        if queue not in self._open:
            shut = self._full | self._closed if queue.admits else self._full
            self._open[queue] = [place for place in queue.places if place not in shut]
        return self._open[queue]

    def _most(self, queue: Queue) -> float:
        if queue not in self._headroom:
            self._headroom[queue] = max(map(self._places.headroom, self._opened(queue)), default=-1)
        return self._headroom[queue]

    def _keep_free(self, queue: Queue, ticket: Ticket) -> None:
        home, places = ticket.place, self._places
        assert home is not None  # it waits for it
        if not queue.admits or (home not in self._closed and places.house(home, ticket)):
            self._shut(home, self._full)
        elif not places.needs_all(home, ticket):
            self._shut(home, self._closed)
        elif self._emptying is None:
            self._emptying = home
            self._shut(home, self._closed)

    def _shut(self, place: Place, those: set[Place]) -> None:
        if place not in those:
            those.add(place)
            self._open.clear()
            self._headroom.clear()
