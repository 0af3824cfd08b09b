"""JSON lines on standard error: counts and ids of things, never prompts, keys or tokens.

A thread of its own writes them, so that a pipe that nobody reads holds up no call; what cannot be written is dropped
and counted.
"""

import atexit
import logging
import os
import sys
import traceback
from contextlib import suppress
from functools import cache
from queue import Full, Queue
from select import select
from threading import Thread

import structlog
from aiohttp.http_exceptions import HttpProcessingError

_MOST_LINES = 10_000
_FAREWELL_S = 0.5
_MOST_FAREWELLS = 20
"""At its end the process waits as long as lines are taken, but not for a reader that is not there, nor for ever."""


class Lines:
    """A file to be logged to, whose lines appear on a descriptor, in order; `write` neither waits nor fails."""

    def __init__(self, descriptor: int | None, most: int = _MOST_LINES) -> None:
        self._descriptor = descriptor
        self._most = most
        self.dropped = 0
        self._progress = 0
        self.start()

    def start(self) -> None:
        """Begin to write; once more in a fork, in which threads do not live on."""
        self._queue: Queue[str | None] = Queue(self._most)
        self._thread = Thread(target=self._write_all, name="log", daemon=True)
        self._thread.start()

    def write(self, line: str) -> int:
        """Take a line, or drop it when too many wait."""
        try:
            self._queue.put_nowait(line)
        except Full:
            self.dropped += 1
        return len(line)

    def flush(self) -> None:
        """Nothing: the thread does not keep lines back."""

    def close(self) -> None:
        """Wait for the lines that are left, as long as somebody takes them."""
        told, progress = False, -1
        for _ in range(_MOST_FAREWELLS):
            if not self._thread.is_alive() or progress == self._progress:
                return
            progress = self._progress
            with suppress(Full):
                if not told:
                    self._queue.put(None, timeout=_FAREWELL_S)
                    told = True
            self._thread.join(_FAREWELL_S)

    def _write_all(self) -> None:
        while (line := self._queue.get()) is not None:
            rest = line.encode(errors="backslashreplace")
            try:
                if self._descriptor is None:
                    raise OSError("there is no standard error")
                while rest:
                    rest = rest[self._written(self._descriptor, rest) :]
            except OSError:
                self.dropped += 1

    def _written(self, descriptor: int, data: bytes) -> int:
        try:
            count = os.write(descriptor, data)
        except BlockingIOError:  # the descriptor's other owners may have made it so
            select([], [descriptor], [])
            return 0
        self._progress += count
        return count


@cache
def _lines() -> Lines:
    """The one of this process."""
    # Not by way of sys.stderr: the interpreter would wait at its end for the lock of a write that hangs. The number
    # stands for whatever standard error is at the time: daemons and test runners put another file there.
    try:
        lines = Lines(sys.__stderr__.fileno() if sys.__stderr__ else None)
    except OSError:
        lines = Lines(None)
    atexit.register(lines.close)
    os.register_at_fork(after_in_child=lines.start)
    return lines


def dropped_lines() -> int:
    """How many lines could not be written."""
    return _lines().dropped


def configure() -> None:
    """Send structlog to standard error, one JSON object a line."""
    steps = structlog.processors
    structlog.configure(
        processors=[steps.add_log_level, steps.TimeStamper("iso"), steps.format_exc_info, steps.JSONRenderer()],
        logger_factory=structlog.WriteLoggerFactory(_lines()),  # type: ignore[arg-type]  # it writes and flushes
        cache_logger_on_first_use=True,
    )


def configure_process() -> None:
    """As `configure`, and what others say through the standard library, from warnings on, likewise."""
    configure()
    handler = logging.StreamHandler(_lines())
    handler.setFormatter(structlog.stdlib.ProcessorFormatter(processor=structlog.processors.JSONRenderer()))
    logging.basicConfig(handlers=[handler], level=logging.WARNING)
    logging.captureWarnings(True)


def hush() -> None:
    """Keep out of the log what others say too much of.

    Of requests that are no HTTP aiohttp's words repeat them, keys included; urllib3 tells of each try to reach a
    server, and what comes of the last one is told here.
    """
    logging.getLogger("urllib3.connectionpool").setLevel(logging.ERROR)
    logging.getLogger("aiohttp.server").addFilter(_is_no_ill_request)


def _is_no_ill_request(record: logging.LogRecord) -> bool:
    return not (record.exc_info and isinstance(record.exc_info[1], HttpProcessingError))


def where(error: BaseException | None = None) -> dict[str, object]:
    """Where a failure happened (the one that is being handled, if none is given), for the line that tells of it.

    In place of `exc_info`, of which some set-ups of structlog show all that was in hand there, and without the
    exception's own words, in which a driver may repeat what it was given: prompts and keys. The operating system's
    are kept: it was given none.
    """
    failed = error or sys.exception()
    chain = []
    while failed is not None:
        words = f": {failed}" if isinstance(failed, OSError) else ""
        chain.append("".join(traceback.format_tb(failed.__traceback__)) + type(failed).__name__ + words)
        failed = failed.__cause__ or (None if failed.__suppress_context__ else failed.__context__)
    return {"exc_info": False, "traceback": "\n\ncaused\n\n".join(reversed(chain))}
