"""The ranks of all engines: which of them suit a call, and what a turn on one of them costs and changes.

Mutable state: the attributes of `Places` and of each `Place`, and the affinities of sessions, written here only.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from math import inf

from gateway.core.pool import Affinity, Bounds, Demand, MoveReason, RankLoad, pick
from gateway.core.residency import Residency
from gateway.edge.metrics import Metrics
from gateway.edge.place import Place
from gateway.edge.rank import Rank
from gateway.edge.ticket import Kind, Ticket


class Places:
    """The ranks, by name, and which sessions live there. `clock` gives seconds."""

    def __init__(self, bounds: Bounds, metrics: Metrics, clock: Callable[[], float]) -> None:
        self.bounds = bounds
        self.residency = Residency(bounds.resident_idle_s)
        self._named: dict[str, Place] = {}
        self._metrics = metrics
        self._clock = clock
        self._losses = 0
        self._seen: list[tuple[Place, bool, int | None, frozenset[str]]] = []
        self._drained = frozenset[Place]()
        # What the last look has shown, and what follows from it.
        self._windows: list[int] = []
        self._models = frozenset[str]()
        self._numbers = frozenset[int]()
        self._options: dict[Kind, Sequence[Place]] = {}

    def __len__(self) -> int:
        """How many there are."""
        return len(self._named)

    def __getitem__(self, name: str) -> Place:
        """The rank of that name."""
        return self._named[name]

    def have(self, rank: Rank) -> bool:
        """Whether that rank is one of them, and not only one of its name."""
        place = self._named.get(rank.name)
        return place is not None and place.rank is rank

    def all(self) -> list[Place]:
        """Each of them."""
        return list(self._named.values())

    def add(self, place: Place) -> None:
        """A rank is there, and nothing is cached on it."""
        self._named[place.name] = place
        self.lose([place])

    def remove(self, place: Place) -> None:
        """A rank is not there any more. Turns that hold it may still end."""
        del self._named[place.name]
        self.residency.empty(place.name)

    def lose(self, places: Iterable[Place]) -> None:
        """What was cached on these may not be any more."""
        self._losses += 1
        for place in places:
            place.emptied = self._losses

    def resident_tokens(self, place: Place) -> int:
        """What the sessions of a rank take up there now."""
        self.residency.expire(self._clock())
        return self.residency.tokens(place.name)

    def look(self) -> bool:
        """See which ranks take turns, and for which calls; whether that is other than it was at the last look."""
        seen = [(place, place.serves, place.window, place.rank.engine.models) for place in self._named.values()]
        drained = frozenset(place for place in self._named.values() if place.rank.draining)
        if (seen, drained) == (self._seen, self._drained):
            return False
        self._drained = drained
        self._seen = seen
        self._options.clear()
        self._windows = sorted({window for _, _, window, _ in seen if window is not None})
        self._models = frozenset().union(*(models for _, _, _, models in seen))
        self._numbers = frozenset(place.rank.number for place, _, _, _ in seen)
        return True

    def kind(self, demand: Demand) -> Kind:
        """What a call wants, by the last look: a model that nobody lists, or a number that no rank has, is no wish."""
        model = demand.model if demand.model in self._models else None
        number = demand.rank_number if demand.rank_number in self._numbers else None
        needed = demand.prompt_tokens + min(1, demand.remaining_tokens)
        at = bisect_left(self._windows, needed)
        return Kind(model, number, self._windows[at] if at < len(self._windows) else None)

    def options(self, kind: Kind) -> Sequence[Place]:
        """The ranks that suit calls of a kind and take turns, by the last look.

        Where no engine's context holds the prompt any suits, since the error is about the prompt then. While one that
        would hold it takes no turns there is none.
        """
        if kind not in self._options:
            self._options[kind] = [place for place in self._suiting(kind) if place.serves]
        return self._options[kind]

    def _suiting(self, kind: Kind) -> Sequence[Place]:
        places = self.all()
        listed = [place for place in places if kind.model in place.rank.engine.models] or places
        numbered = [place for place in listed if kind.rank_number in (None, place.rank.number)] or listed
        return [place for place in numbered if kind.window and (place.window or 0) >= kind.window] or numbered

    def may_come_back(self, kind: Kind) -> bool:
        """Whether a rank that suits calls of a kind has answered before, and will take turns if it is there again."""
        return any(place.window is not None and not place.rank.draining for place in self._suiting(kind))

    def window(self, model: str | None) -> int:
        """The longest context that a model's engines offer, in tokens, there or not; 0 where it is not known."""
        listed = [place for place in self.all() if model in place.rank.engine.models] or self.all()
        return max((place.window or 0 for place in listed), default=0)

    def pick(self, places: Sequence[Place], affinity: Affinity) -> Place:
        """The one of `places` that a session should go to."""
        now_s = self._clock()
        self.residency.expire(now_s)
        others = [place for place in places if place.name != affinity.shuns] or places
        home = next((place for place in others if place.name == affinity.rank), None)
        if home is not None and not self._load(home, now_s).overloaded:
            return home  # as `pick` would say, with less to do for the usual case
        name = pick([self._load(place, now_s) for place in others], affinity.rank, affinity.session_id)
        assert name is not None
        return self._named[name]

    def _load(self, place: Place, now_s: float) -> RankLoad:
        return place.load(self.residency.tokens(place.name), self.bounds, now_s)

    def must_be_admitted(self, ticket: Ticket) -> bool:
        """Whether a call is of a new session, for which there must be room first."""
        limited = self.bounds.resident_share is not None
        return limited and ticket.demand.new_session and ticket.affinity not in self.residency

    def house(self, place: Place, ticket: Ticket) -> bool:
        """Whether a new session will have room in a rank's KV cache, grown as all there will; alone it always has."""
        return self.residency.expected(ticket.demand.prompt_tokens) <= self.headroom(place)

    def needs_all(self, place: Place, ticket: Ticket) -> bool:
        """Whether a new session will not have room in a rank's KV cache while there is any other."""
        share, capacity = self.bounds.resident_share, place.rank.capacity_tokens
        expected = self.residency.expected(ticket.demand.prompt_tokens)
        return share is not None and capacity is not None and expected > share * capacity

    def is_large(self, places: Sequence[Place], ticket: Ticket) -> bool:
        """Whether a new session can share none of `places`, however short others are."""
        share, needed = self.bounds.resident_share, ticket.demand.prompt_tokens
        capacities = [place.rank.capacity_tokens for place in places]
        return share is not None and all(tokens is not None and needed > share * tokens for tokens in capacities)

    def headroom(self, place: Place) -> float:
        """How many tokens a new session may come to that is to have room in a rank's KV cache."""
        share, capacity = self.bounds.resident_share, place.rank.capacity_tokens
        if share is None or capacity is None or not self.residency.sessions(place.name):
            return inf
        return share * capacity - self.residency.claims(place.name)

    def fit(self, place: Place, ticket: Ticket) -> bool:
        """Whether a rank has room for a turn now."""
        return place.fits(self._prefill_tokens(ticket, place), self.bounds)

    def _prefill_tokens(self, ticket: Ticket, place: Place) -> int:
        affinity = ticket.affinity
        cached = affinity.rank == place.name and affinity.cached_at >= place.emptied
        return max(1, ticket.demand.prompt_tokens - (affinity.resident_tokens if cached else 0))

    def lease(self, ticket: Ticket, place: Place) -> None:
        """Give a rank to a call; the session lives there from now on."""
        affinity = ticket.affinity
        if affinity.rank not in (None, place.name) and affinity.left is None:
            affinity.left = affinity.rank, self._why_moved(affinity, ticket.demand), affinity.resident_tokens
        ticket.prefill_tokens = self._prefill_tokens(ticket, place)
        ticket.place = place
        place.in_flight += 1
        place.prefilling_tokens += ticket.prefill_tokens
        ticket.stay = self.residency.enter(affinity, place.name, ticket.demand.prompt_tokens)
        self._metrics.took("queue", ticket.waited_s - ticket.demand.waited_s)

    def heard(self, ticket: Ticket) -> None:
        """A call's prompt is prefilled."""
        if ticket.place is not None:
            ticket.place.prefilling_tokens -= ticket.prefill_tokens
            ticket.prefill_tokens = 0

    def cached(self, ticket: Ticket, tokens: int) -> None:
        """A context of so many tokens is cached on a call's rank."""
        affinity, place = ticket.affinity, ticket.place
        if place is not None and affinity.rank == place.name:
            self.residency.cached(affinity, tokens, self._clock())
            affinity.cached_at, affinity.shuns = self._losses, None

    def vacate(self, ticket: Ticket) -> None:
        """Give back what a call holds."""
        place, stay = ticket.place, ticket.stay
        assert place is not None
        assert stay is not None
        self.heard(ticket)
        self.residency.leave(stay, self._clock())
        ticket.place = ticket.stay = None
        place.in_flight -= 1

    def settled(self, ticket: Ticket) -> None:
        """A call does go to its rank: if that is another one than its session's last, the session has moved."""
        left, ticket.affinity.left = ticket.affinity.left, None
        if left is not None and ticket.place is not None and ticket.place.name != left[0]:
            _, reason, tokens = left
            self._metrics.moves.inc(reason)
            self._metrics.reprefill.inc(reason, by=min(tokens, ticket.demand.prompt_tokens))

    def _why_moved(self, affinity: Affinity, demand: Demand) -> MoveReason:
        home = self._named.get(affinity.rank or "")
        if home is None:
            return "removed"
        if home.rank.draining:
            return "draining"
        if not home.serves or affinity.shuns == home.name:
            return "down"
        return "overloaded" if home in self.options(self.kind(demand)) else "demanded"
