"""The end of the process that started this one, however it comes, and of those for whom it only passed the start on.

What a kernel offers for this, PR_SET_PDEATHSIG, is not used: it fires when the *thread* ends that started us, be it
one of a pool, and it does not see through a shell. Here a thread of our own waits, so that an event loop that is held
up, or not running yet, does not matter.
"""

import os
import select
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Thread

from gateway.errors import ConfigError

STARTED_BY = os.getppid()
"""Who started this process, as early as it can be known; it may have gone when it is asked for."""
_LAUNCHERS = {"sh", "bash", "dash", "ash", "zsh", "ksh", "fish", "busybox", "timeout", "sudo", "uv", "uvx"}
"""Programs that only stand between: killed is who started them, and they wait on for us."""
_ADOPTERS = {"systemd", "init", "launchd", "tini", "dumb-init", "docker-init", "catatonit", "s6-svscan", "runsv"}
"""Programs that take in processes whose parent has gone."""
_LOOK_S = 1.0
"""How often to look where there are no descriptors of processes: before Linux 5.3, and elsewhere."""
_LAST_S = 4.0
"""When the process ends, whatever it still does: nobody reads what it could say."""


@dataclass(frozen=True, slots=True)
class Process:
    """A process, as ``/proc`` shows it."""

    pid: int
    parent: int
    name: str
    words: tuple[str, ...]
    """Its command line."""

    @property
    def is_launcher(self) -> bool:
        """Whether it only runs a command, or a script; an interactive shell is somebody's place of work."""
        return self.name in _LAUNCHERS and any(not word.startswith("-") for word in self.words[1:])


def read_process(pid: int) -> Process | None:
    """What ``/proc`` says of a process; ``None`` where there is none, or no ``/proc``."""
    folder = Path("/proc") / str(pid)
    with suppress(OSError):
        name, _, rest = (folder / "stat").read_text(errors="replace").partition("(")[2].rpartition(")")
        words = (folder / "cmdline").read_text(errors="replace").split("\0")
        return Process(pid, int(rest.split()[1]), name, tuple(words[:-1]))
    return None


def kin(parent: int, read: Callable[[int], Process | None] = read_process) -> Sequence[int]:
    """Whose end is ours: the parent and, as long as that only passes the start on, its own.

    Raises:
        ConfigError: the parent has gone already, and what stands in its place has adopted us.
    """
    process = read(parent)
    if process is not None and process.name in _ADOPTERS:
        raise ConfigError(
            f"--exit-with-parent: the parent is {process.name} (pid {parent}), which takes in processes whose own is "
            "gone: there is nobody to end with; leave it out where nothing but that starts the gateway"
        )
    pids = [parent]
    while process is not None and process.is_launcher:
        process = read(process.parent)
        if process is None or process.name in _ADOPTERS or _is_interactive(process):
            break
        pids.append(process.pid)
    return pids


def _is_interactive(process: Process) -> bool:
    return process.name.removeprefix("-") in _LAUNCHERS and not process.is_launcher


def watch(tell: Callable[[], None]) -> None:
    """Call `tell`, in a thread of its own, when one of those has ended whose end is ours; end the process soon after.

    Raises:
        ConfigError: the parent has gone already.
    """
    if os.getppid() != STARTED_BY:
        raise ConfigError("--exit-with-parent: the parent has gone already, and there is nobody to end with")
    Thread(target=_wait, args=(kin(STARTED_BY), tell), name="parent", daemon=True).start()


def _wait(pids: Sequence[int], tell: Callable[[], None]) -> None:
    descriptors = [_opened(pid) for pid in pids]
    known = [descriptor for descriptor in descriptors if descriptor is not None]
    # Numbers are given again: what was opened is what was meant if all are still where they were.
    while _are_there(pids):
        if len(known) == len(pids):
            _until_one_ends(known)
            break
        time.sleep(_LOOK_S)
    tell()
    time.sleep(_LAST_S)
    os._exit(3)


def _are_there(pids: Sequence[int]) -> bool:
    """Whether each is the parent of the one before it, and the first is ours."""
    links = zip(map(read_process, pids), pids[1:], strict=False)
    return os.getppid() == pids[0] and all(process is not None and process.parent == above for process, above in links)


def _opened(pid: int) -> int | None:
    """A descriptor that is readable when the process has ended, where the system has such."""
    if sys.platform == "linux" and hasattr(os, "pidfd_open"):
        with suppress(OSError):
            return os.pidfd_open(pid)
    return None


def _until_one_ends(descriptors: Sequence[int]) -> None:
    poll = select.poll()
    for descriptor in descriptors:
        poll.register(descriptor, select.POLLIN)
    poll.poll()
