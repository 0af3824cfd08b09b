"""How long a thread waits for a network: up to a deadline, and no longer than somebody waits for what it does.

A timeout of a socket bounds each read, and a server that answers byte by byte stays below it for ever. So a call that
is given up has its socket shut down, upon which whatever reads from it fails at once.
"""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from time import monotonic
from typing import TypeVar

T = TypeVar("T")

CALL_S = 30.0
"""How long all that one call asks of a network may take, every try included."""


_LOOK_S = 0.1
"""How often one that waits for a lock looks whether it was given up."""


class GivenUpError(Exception):
    """Nobody waits any more, or it took longer than `CALL_S`."""


class Patience:
    """That of one call, whose thread asks under it; `give_up` is for other threads.

    State: the socket that is read from now, and when all must be done, which counts from the first request.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._socket: socket.socket | None = None
        self._ends_at: float | None = None
        self.is_left = False
        """Whether it was given up since nobody waits any more."""

    def run(self, call: Callable[[], T]) -> T:
        """Call it; what it asks of a network is asked with this patience."""
        token = _CURRENT.set(self)
        try:
            return call()
        finally:
            _CURRENT.reset(token)

    @property
    def is_over(self) -> bool:
        """Whether it was given up."""
        return self._over.is_set()

    def leave(self) -> None:
        """Nobody waits any more."""
        self.is_left = True
        self.give_up()

    def give_up(self) -> None:
        """End the request that is under way, and have no other begun."""
        with self._lock:
            self._over.set()
            if self._socket is not None:
                with suppress(OSError):  # it has ended by itself
                    socket.socket.shutdown(self._socket, socket.SHUT_RDWR)  # that of a TLS socket is for its own thread

    def hold(self, connected: socket.socket) -> None:
        """Read from this socket next.

        Raises:
            GivenUpError: not any more.
        """
        with self._lock:
            self._check()
            self._socket = connected

    def take(self, lock: "threading.Lock") -> None:
        """Wait for a lock.

        Raises:
            GivenUpError: it was given up before it had it.
        """
        while not lock.acquire(timeout=_LOOK_S):
            self._check()

    def sleep(self, duration_s: float) -> None:
        """Wait before another try; the connection may be another's meanwhile.

        Raises:
            GivenUpError: there must be none.
        """
        with self._lock:
            self._socket = None
        self._over.wait(duration_s)
        self._check()

    @contextmanager
    def request(self) -> Iterator[None]:
        """A request, with its tries, which ends when all must be done.

        Raises:
            GivenUpError: it must not begin, or what came of it was cut short, which it need not show.
        """
        self._check()
        self._ends_at = self._ends_at or monotonic() + CALL_S
        timer = threading.Timer(self._ends_at - monotonic(), self.give_up)
        timer.daemon = True
        timer.start()
        token = _CURRENT.set(self)
        try:
            yield
            self._check()
        finally:
            _CURRENT.reset(token)
            timer.cancel()
            with self._lock:
                self._socket = None

    def _check(self) -> None:
        if self.is_over:
            raise GivenUpError


_CURRENT: ContextVar[Patience | None] = ContextVar("patience", default=None)


def patience() -> Patience:
    """That of the call or the request that runs in this thread, or another."""
    return _CURRENT.get() or Patience()
