"""The queues before the ranks: who waits, and who is next.

A call of a session that has a rank waits for that; one of a session without waits for any that suits it, and goes to
the first that has room. New sessions may have to wait until there is room for them in a KV cache. What the gate holds
stands in no queue. Nothing here awaits: each change (a lease given back, a prompt prefilled, the gate, a rank that
comes or goes) is followed by `pump`, which gives a rank to whoever can have one.

Mutable state: the attributes of `Queues` and of the tickets, written here only, but for what `Places` writes.
"""

import asyncio
from collections import Counter
from collections.abc import Callable
from heapq import heapify, heappop, heappush
from itertools import count

from gateway.core.pool import Affinity, Demand
from gateway.edge.gate import Gate
from gateway.edge.place import Place
from gateway.edge.places import Places
from gateway.edge.room import Room
from gateway.edge.ticket import Kind, Queue, Ticket
from gateway.errors import NoRank


class Queues:
    """Who waits for which rank. `clock` gives seconds."""

    def __init__(self, places: Places, gate: Gate, clock: Callable[[], float]) -> None:
        self._places = places
        self._gate = gate
        self._clock = clock
        self._numbers = count()
        self._queues: dict[tuple[Kind | Place, bool, bool], Queue] = {}
        # Those in which somebody stands.
        self._waiting: dict[Affinity, dict[Ticket, None]] = {}
        self._standing: dict[Affinity, Counter[Queue]] = {}
        # How many calls of a session stand in which queue.
        self._held: dict[Ticket, None] = {}
        self._releases = 0
        self._held_all = gate.held == "all"
        self._alarm: asyncio.TimerHandle | None = None
        gate.when_changed(self._gate_changed)

    @property
    def waiting(self) -> int:
        """How many wait, those included that the gate holds."""
        return sum(map(len, self._waiting.values()))

    def suits_any(self, demand: Demand) -> bool:
        """Whether there is a rank that suits a call and takes turns."""
        self._form_anew()
        return bool(self._places.options(self._places.kind(demand)))

    def may_wait(self, demand: Demand) -> bool:
        """Whether a call waits though no rank that suits it takes turns."""
        awaits = demand.awaits_engine and self._places.may_come_back(self._places.kind(demand))
        return demand.resumes or awaits

    def ticket(self, affinity: Affinity, demand: Demand, number: int | None = None) -> Ticket:
        """One for a call that is about to wait, or to wait again with its old number; it must `leave`."""
        affinity.in_flight += 1
        number = next(self._numbers) if number is None else number
        return Ticket(affinity, demand, number, waited_s=demand.waited_s)

    def enter(self, ticket: Ticket) -> None:
        """Wait for a rank. The ticket's outcome says when it is there, or that none takes turns.

        Raises:
            NoRank: too many wait already.
        """
        ticket.outcome = asyncio.get_running_loop().create_future()
        self._form_anew()
        self._waiting.setdefault(ticket.affinity, {})[ticket] = None
        self._stand(ticket)
        self.pump()
        if not ticket.outcome.done() and not ticket.demand.resumes and self._is_too_deep(ticket):
            raise NoRank("as many turns wait for a rank as may (--queue-turns): try again later")

    def _is_too_deep(self, ticket: Ticket) -> bool:
        """Whether more wait for a rank than may, or for engines that are away; what the gate holds waits for none."""
        most = self._places.bounds.queue_turns
        if ticket.place is None:
            return ticket not in self._held and self.waiting - len(self._held) > most * max(1, len(self._places))
        return ticket.place.waiting > most

    def leave(self, ticket: Ticket) -> None:
        """Give back the rank, or wait no more."""
        if ticket.stay is not None:
            self._places.vacate(ticket)
        elif ticket in self._waiting.get(ticket.affinity, ()):
            self._withdraw(ticket)
        ticket.affinity.in_flight -= 1
        self._note(ticket.affinity)
        if ticket.outcome.done() and not ticket.outcome.cancelled():
            ticket.outcome.exception()  # who was cancelled does not look at it
        self.pump()

    def _leases(self, affinity: Affinity) -> int:
        return affinity.in_flight - len(self._waiting.get(affinity, ()))

    def _note(self, affinity: Affinity) -> None:
        """A session has more or fewer turns in flight, and so another place in line."""
        for queue in self._standing.get(affinity, ()):
            queue.line.note(affinity, self._leases(affinity))

    # Where a ticket stands.

    def _stand(self, ticket: Ticket) -> None:
        demand, affinity = ticket.demand, ticket.affinity
        if self._gate.holds(new_session=demand.new_session):
            self._held[ticket] = None
            return
        ticket.since_s = self._clock()
        self._set_timer(ticket)
        kind = self._places.kind(demand)
        options = self._places.options(kind)
        if not options:
            if not self.may_wait(demand):
                self._withdraw(ticket)
                ticket.tell(held=False)
            return
        ticket.place = self._places.pick(options, affinity)
        admits = self._places.must_be_admitted(ticket)
        bound = ticket.place.name == affinity.rank and not admits
        large = admits and self._places.is_large(options, ticket)
        key = ticket.place if bound else kind, admits, large
        places = [ticket.place] if bound else options
        queue = ticket.queue = self._queues.get(key) or self._queues.setdefault(key, Queue(*key, places))
        queue.line.join(ticket, self._leases(affinity))
        self._standing.setdefault(affinity, Counter())[queue] += 1
        ticket.place.waiting += 1
        ticket.place.queued_tokens += demand.prompt_tokens

    def _step_out(self, ticket: Ticket) -> None:
        """Take a ticket from where it stands."""
        if ticket in self._held:
            del self._held[ticket]
            return
        ticket.waited_s += self._clock() - ticket.since_s
        if ticket.timer is not None:
            ticket.timer.cancel()
            ticket.timer = None
        queue, place, affinity = ticket.queue, ticket.place, ticket.affinity
        if queue is None or place is None:
            return
        ticket.queue = ticket.place = None
        queue.line.leave(ticket, self._leases(affinity))
        if not queue.line:
            del self._queues[queue.kind, queue.admits, queue.large]
        standing = self._standing[affinity]
        standing[queue] -= 1
        if not standing[queue]:
            del standing[queue]
        if not standing:
            del self._standing[affinity]
        place.waiting -= 1
        place.queued_tokens -= ticket.demand.prompt_tokens

    def _withdraw(self, ticket: Ticket) -> None:
        """Let a ticket wait no more."""
        self._step_out(ticket)
        siblings = self._waiting[ticket.affinity]
        del siblings[ticket]
        if not siblings:
            del self._waiting[ticket.affinity]

    def _set_timer(self, ticket: Ticket) -> None:
        bounds, resumes = self._places.bounds, ticket.demand.resumes
        limit_s = bounds.resume_timeout_s if resumes else bounds.queue_wait_s
        pause_s = max(0.0, limit_s - ticket.waited_s)
        ticket.timer = asyncio.get_running_loop().call_later(pause_s, self._give_up, ticket, limit_s)

    def _give_up(self, ticket: Ticket, limit_s: float) -> None:
        who = "no rank had room" if ticket.place is not None else "no engine that suits was there"
        self._withdraw(ticket)
        what = "carry this answer on" if ticket.demand.resumes else "take this turn"
        ticket.tell(NoRank(f"{who} to {what} within {limit_s:g} s: try again later"))
        self.pump()

    def _tickets(self) -> list[Ticket]:
        every = (ticket for tickets in self._waiting.values() for ticket in tickets)
        return sorted(every, key=lambda ticket: ticket.number)

    def _gate_changed(self) -> None:
        held_all, self._held_all = self._held_all, self._gate.held == "all"
        if held_all and not self._held_all:
            self._places.lose(self._places.all())
        self._releases += 1
        self._form_anew()  # now, while those that it held stand nowhere
        for ticket in self._tickets():
            held = ticket in self._held
            if self._gate.holds(new_session=ticket.demand.new_session) != held:
                self._step_out(ticket)
                if held and ticket.release is None:
                    ticket.release = self._releases
                self._stand(ticket)
        self.pump()

    def _form_anew(self) -> None:
        """Where other ranks take turns than before, those who wait are told where to wait."""
        if not self._places.look():
            return
        for queue in self._queues.values():
            if isinstance(queue.kind, Kind):
                queue.places = self._places.options(queue.kind)
        for ticket in self._tickets():
            if ticket not in self._held and not self._stands_well(ticket):
                self._step_out(ticket)
                self._stand(ticket)

    def _stands_well(self, ticket: Ticket) -> bool:
        """Whether a ticket would stand there again, but for the load of ranks."""
        queue, place = ticket.queue, ticket.place
        if queue is None or place is None or not place.serves:
            return False
        kind, home = self._places.kind(ticket.demand), ticket.affinity.rank
        options = self._places.options(kind)
        if isinstance(queue.kind, Place):
            return place.name == home and place in options
        return queue.kind == kind and place in options and (queue.admits or all(one.name != home for one in options))

    # Who is next.

    def pump(self) -> None:
        """Give a rank to whoever can have one, in order. To be called when a rank has changed."""
        if not self._waiting:
            return
        self._form_anew()
        queues = list(self._queues.values())
        heads = [(front[0], at, queue) for at, queue in enumerate(queues) if (front := queue.line.front)]
        heapify(heads)
        numbers, room = count(len(heads)), Room(self._places)
        while heads:
            order, _, queue = heappop(heads)
            front = queue.line.front
            changed: set[Queue] = set()
            if front is not None and front[0] != order:
                changed = {queue}
            elif front is not None and (place := room.of(queue, front[1])):
                changed = {queue, *self._lease(front[1], place)}
            elif front is not None and room.may_pass(queue):
                queue.line.pass_over()
                changed = {queue}
            for other in changed:
                if front := other.line.front:
                    heappush(heads, (front[0], next(numbers), other))
        for queue in queues:
            queue.line.recall()
        self._set_alarm()

    def _lease(self, ticket: Ticket, place: Place) -> set[Queue]:
        """Give a rank to a ticket; the queues whose order has changed."""
        affinity = ticket.affinity
        follow = affinity.rank != place.name or (ticket.queue is not None and ticket.queue.admits)
        self._withdraw(ticket)
        if ticket.outcome.done():
            return set()  # it was cancelled, and leaves next
        self._places.lease(ticket, place)
        ticket.tell(held=True)
        for sibling in list(self._waiting.get(affinity, ())) if follow else ():
            if sibling not in self._held:
                self._step_out(sibling)
                self._stand(sibling)
        self._note(affinity)
        return set(self._standing.get(affinity, ()))

    def _set_alarm(self) -> None:
        """Where new sessions wait for room, the next one to be idle for long makes some."""
        self.close()
        expiry_s = self._places.residency.next_expiry_s
        if expiry_s is not None and any(queue.admits for queue in self._queues.values()):
            pause_s = max(0.0, expiry_s - self._clock())
            self._alarm = asyncio.get_running_loop().call_later(pause_s + 0.001, self._expired)

    def _expired(self) -> None:
        self._places.residency.expire(self._clock())
        self.pump()

    def close(self) -> None:
        """Wake up no more."""
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
