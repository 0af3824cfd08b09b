"""Which calls a retry may be answered by.

A client that lost its answer sends the same bytes again and says so, by a retry count or an idempotency key. It is
answered by the call that it repeats: joined while that runs, replayed when it is recorded. The same bytes without
such a mark are a resample, and always sampled.

A retry count does not say which of several equal calls it repeats. But one client sends each count once, and the
counts in order: a call answers each count once at most, never one below all that it has seen, and the retry number k
first of all asks the calls that have seen k - 1. Otherwise resamples that fail together would come back as one.

Among these it would be natural to join what runs, and then to replay what is recorded. Yet a client that retries has
hung up before, or was hung up on: a call that somebody still waits for is somebody else's, unless its client is gone
without a word. So such a call comes last, and one that was answered before it, since its answer may have been lost.

Mutable state: the attributes of `Retries` and of its calls, written by `Retries` only.
"""

from collections import OrderedDict, defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum, auto
from hashlib import blake2b

from gateway.core.turn import Turn
from gateway.core.types import UNKNOWN_VERSION
from gateway.edge.session import Session
from gateway.edge.tasks import WaitedTask
from gateway.errors import BadRequest

_MAX_KEY_CHARS = 255
_KEY = "Idempotency-Key"
_COUNT = "x-stainless-retry-count"


@dataclass(frozen=True, slots=True)
class Taken:
    """What a call came to: the recorded turns of its choices, in order."""

    session: Session
    turns: tuple[Turn, ...]
    version: str = UNKNOWN_VERSION
    """The policy version when it came."""

    def note_delivery(self, *, delivered: bool) -> None:
        """Whether the answer reached its client."""
        for turn in self.turns:
            self.session.ledger.deliveries.note(turn, delivered=delivered)

    def is_undelivered(self) -> bool:
        """Whether it is known that the answer did not reach its client."""
        return any(self.session.ledger.deliveries.of(turn) is False for turn in self.turns)


@dataclass(frozen=True, slots=True)
class Sending:
    """One request, as far as it matters whether it repeats another."""

    scope: str | None
    """The session that it names; all that name none share one scope."""
    digest: bytes
    """Of the raw body and its dialect."""
    key: str | None = None
    count: int = 0
    """Which retry it is by its own word; 0 is none."""


def digest_of(dialect: str, body: bytes) -> bytes:
    """What a body is known by: equal bytes of one dialect have equal digests."""
    return blake2b(body, digest_size=16, person=dialect.encode()).digest()


def sending_of(scope: str | None, digest: bytes, headers: Mapping[str, str]) -> Sending:
    """A request as its headers have it; a retry count that is no number counts as none.

    Raises:
        BadRequest: its idempotency key is too long to be remembered.
    """
    key, count = headers.get(_KEY) or None, headers.get(_COUNT, "")
    if key is not None and len(key) > _MAX_KEY_CHARS:
        raise BadRequest(f"an {_KEY} has no more than {_MAX_KEY_CHARS} characters: send a shorter one", param=_KEY)
    is_count = count.isascii() and count.isdecimal() and len(count) < 10
    return Sending(scope, digest, key, int(count) if is_count else 0)


class _State(IntEnum):
    """How a call stands; in this order they are what a retry without a key most probably repeats."""

    LEFT_ALONE = auto()
    UNDELIVERED = auto()
    FAILED = auto()
    """It answers nobody: its retry is sampled anew, and not answered by an equal call that did well."""
    ANSWERED = auto()
    WAITED_FOR = auto()


@dataclass(slots=True, eq=False)
class _Call:
    """One call that was begun, and the retries that it has answered."""

    sending: Sending
    task: WaitedTask[Taken] | None
    """``None`` once it has failed: an error holds on to all that the call had in hand."""
    counts: set[int]
    """The retry counts that it came with, or was given to."""

    @property
    def taken(self) -> Taken | None:
        return self.task.result if self.task is not None else None

    @property
    def state(self) -> _State:
        if self.task is not None and self.task.running:
            return _State.WAITED_FOR if self.task.waiters else _State.LEFT_ALONE
        taken = self.taken
        if taken is None:
            return _State.FAILED
        return _State.UNDELIVERED if taken.is_undelivered() else _State.ANSWERED


@dataclass(frozen=True, slots=True)
class _Scope:
    """The calls that can answer each other's retries."""

    counted: defaultdict[bytes, dict[_Call, None]] = field(default_factory=lambda: defaultdict(dict))
    """Those without a key, by their digest, oldest first."""
    keyed: dict[str, _Call] = field(default_factory=dict)

    def calls(self) -> list[_Call]:
        return [*self.keyed.values(), *(call for calls in self.counted.values() for call in calls)]

    def holds(self, call: _Call) -> bool:
        key = call.sending.key
        return call in self.counted.get(call.sending.digest, ()) if key is None else self.keyed.get(key) is call

    def remove(self, call: _Call) -> None:
        key, digest = call.sending.key, call.sending.digest
        if key is not None:
            del self.keyed[key]
            return
        del self.counted[digest][call]
        if not self.counted[digest]:
            del self.counted[digest]


class Retries:
    """The recent calls. Those under way are always known, of those that ended the latest, for a while."""

    def __init__(self, window_s: float, window_calls: int, clock: Callable[[], float]) -> None:
        self._window_s = window_s
        self._window_calls = window_calls
        self._clock = clock
        self._scopes: dict[str | None, _Scope] = {}
        self._ended: OrderedDict[_Call, float] = OrderedDict()
        # When each of them ended, oldest first.
        self._led: dict[str, dict[_Call, None]] = {}
        # Those that named no session and were answered, by the session that they were led to.

    def find(self, sending: Sending) -> WaitedTask[Taken] | None:
        """The call that answers this request; ``None`` if it must be sampled.

        Raises:
            BadRequest: its idempotency key belongs to another body.
        """
        self._expire()
        scope = self._scope(sending.scope)
        call = _by_key(scope, sending, sending.key) if sending.key is not None else _by_count(scope, sending)
        if call is None:
            return None
        if call.state is _State.FAILED:
            self._remove(call)
            return None
        call.counts.add(sending.count)
        return call.task

    def add(self, sending: Sending, task: WaitedTask[Taken]) -> None:
        """Remember a call that has begun."""
        call = _Call(sending, task, {sending.count})
        scope = self._scopes.setdefault(sending.scope, _Scope())
        if sending.key is None:
            scope.counted[sending.digest][call] = None
        else:
            scope.keyed[sending.key] = call
        task.when_done(lambda: self._end(call))

    def forget(self, session_id: str) -> None:
        """Answer nothing more from a session that was deleted, whether its calls named it or not."""
        for call in [*self._scope(session_id).calls(), *self._led.get(session_id, ())]:
            self._remove(call)

    def _scope(self, name: str | None) -> _Scope:
        """The scope of that name; one that is not kept, if there is none."""
        return self._scopes.get(name) or _Scope()

    def _end(self, call: _Call) -> None:
        if not self._scope(call.sending.scope).holds(call):
            return  # it was forgotten, or its key has passed to another call
        if call.taken is None:
            call.task = None
        elif call.sending.scope is None:
            self._led.setdefault(call.taken.session.id, {})[call] = None
        self._ended[call] = self._clock()
        self._expire()

    def _expire(self) -> None:
        oldest_s = self._clock() - self._window_s
        while self._ended:
            call, ended_s = next(iter(self._ended.items()))
            if ended_s >= oldest_s and len(self._ended) <= self._window_calls:
                break
            self._remove(call)

    def _remove(self, call: _Call) -> None:
        self._ended.pop(call, None)
        led = call.taken.session.id if call.taken is not None else ""
        if call in self._led.get(led, ()):
            del self._led[led][call]
            if not self._led[led]:
                del self._led[led]
        scope = self._scope(call.sending.scope)
        scope.remove(call)
        if not (scope.counted or scope.keyed):
            del self._scopes[call.sending.scope]


def _by_key(scope: _Scope, sending: Sending, key: str) -> _Call | None:
    call = scope.keyed.get(key)
    if call is not None and call.state is not _State.FAILED and call.sending.digest != sending.digest:
        raise BadRequest(f"this {_KEY} came with another body before: each request needs its own", param=_KEY)
    return call


def _by_count(scope: _Scope, sending: Sending) -> _Call | None:
    count = sending.count
    calls = scope.counted.get(sending.digest, ()) if count else ()
    possible = (call for call in calls if count not in call.counts and min(call.counts) < count)

    return min(possible, key=lambda call: (count - 1 not in call.counts, call.state), default=None)
