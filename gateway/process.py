"""A server as a process: what ends it, with which status, and the one line that says that it is there."""

import asyncio
import os
import signal
import sys
from collections.abc import Coroutine
from contextlib import suppress
from pathlib import Path

import orjson
import structlog
import uvloop

from gateway import __version__, parent

log = structlog.get_logger()

CUT = 3
"""The exit status where something was broken off that had not come to its end."""
_ORPHAN_S = 1.0
"""How long calls may go on when the parent has gone, and with it most likely all who would read the answers."""


def run(work: Coroutine[object, object, bool], *, exit_with_parent: bool) -> int:
    """Run a server until it ends by itself, or is told to end; the exit status.

    `work` serves until it is cancelled, and then comes to its end; cancelled once more, at once. It says whether all
    came to its end that it had taken on.

    Raises:
        ConfigError: the parent has gone already.
    """
    return uvloop.run(_until_stopped(work, exit_with_parent=exit_with_parent))


async def _until_stopped(work: Coroutine[object, object, bool], *, exit_with_parent: bool) -> int:
    working, loop, signals = asyncio.current_task(), asyncio.get_running_loop(), list[int]()
    assert working is not None

    def stop(number: int) -> None:
        signals.append(number)
        working.cancel()
        if len(signals) > 1:
            loop.remove_signal_handler(number)
            signal.signal(number, signal.SIG_DFL)  # a third ends it without a word

    def leave() -> None:
        log.warning("the parent has gone", until_calls_are_broken_off_s=_ORPHAN_S)
        working.cancel()
        loop.call_later(_ORPHAN_S, working.cancel)

    def tell() -> None:
        with suppress(RuntimeError):  # the loop has ended already
            loop.call_soon_threadsafe(leave)

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop, number)
    try:
        if exit_with_parent:
            parent.watch(tell)
        is_whole = await work
    except asyncio.CancelledError:
        is_whole = len(signals) == 1  # before it served anybody
    finally:
        work.close()
    return 128 + signals[1] if len(signals) > 1 else 0 if is_whole else CUT


def announce(url: str) -> None:
    """Say on standard output that requests are accepted. A reader that has gone is no reason to end."""
    ready = {"event": "ready", "url": url, "pid": os.getpid(), "version": __version__}
    try:
        print(orjson.dumps(ready).decode(), flush=True)  # noqa: T201  # standard output is its product
    except OSError as error:
        log.warning("nobody reads standard output", why=error.strerror)
        with Path(os.devnull).open("wb") as nowhere:  # or what could not be written is tried again at the end
            os.dup2(nowhere.fileno(), sys.__stdout__.fileno() if sys.__stdout__ else 1)
