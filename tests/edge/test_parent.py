"""Whose end is the end of a sidecar; killed, what is killed leaves none behind."""

import asyncio
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import orjson
import pytest
from aiohttp import ClientSession

from gateway.errors import ConfigError
from gateway.parent import Process, kin, read_process
from gateway.render.demo import MODEL_NAME as DEMO
from gateway.sim import FAULTS, JOURNAL
from tests.edge.house import HELLO, until
from tests.edge.process import engine
from tests.surroundings import surroundings

SIDECARS = {
    "serve": ["serve", "--model", DEMO, "--port", "0", "--drain-timeout-s", "60"],
    "sim": ["sim", "--port", "0"],
}
PYTHON_ITSELF = os.path.realpath(sys.executable)
STARTS = """
import os, subprocess, sys, time
with open(sys.argv[1], "wb") as out, open(sys.argv[2], "wb") as errors:
    subprocess.Popen(sys.argv[4:], stdout=out, stderr=errors, start_new_session=True)
time.sleep(float(sys.argv[3]))
"""
"""A program that starts another and goes on to other things."""
ADOPTS = """
import ctypes, os, subprocess, sys
ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)
subprocess.run(sys.argv[1:])
while True:
    os.wait()
"""
"""A program that takes in processes whose parent has gone."""


def shell(*words: str, last: str = "; true") -> list[str]:
    """`words` as a shell would run them that stays to see what becomes of them."""
    return ["/bin/sh", "-c", shlex.join(words) + last]


def table(*processes: Process) -> dict[int, Process]:
    return {process.pid: process for process in processes}


PYTHON = Process(10, 1, "python", ("python", "train.py"))


@pytest.mark.parametrize(
    ("processes", "pids"),
    [
        ([PYTHON], [10]),
        ([Process(11, 10, "sh", ("sh", "-c", "gateway serve")), PYTHON], [11, 10]),
        ([Process(12, 11, "uv", ("uv", "run", "gateway")), Process(11, 10, "bash", ("bash", "run.sh")), PYTHON], [12, 11, 10]),
        ([Process(11, 10, "bash", ("-bash",)), Process(10, 1, "sshd", ("sshd",))], [11]),
        ([Process(12, 11, "bash", ("bash", "run.sh")), Process(11, 10, "bash", ("bash", "-i")), PYTHON], [12]),
        ([Process(11, 10, "sh", ("sh", "-c", "gateway")), Process(10, 1, "systemd", ("systemd", "--user"))], [11]),
        ([Process(11, 10, "sh", ("sh", "-c", "gateway"))], [11]),
        ([], [5]),
    ],
)  # fmt: skip
def test_who_only_passes_the_start_on_does_not_count_alone(processes: list[Process], pids: list[int]) -> None:
    """Shells that run a command, and their like; a shell at which somebody works has an end of its own.

    Where there is no /proc it is the parent alone.
    """
    assert list(kin(pids[0], table(*processes).get)) == pids


@pytest.mark.parametrize("name", ["systemd", "init", "tini", "docker-init"])
def test_a_parent_that_only_adopts_is_nobody_to_end_with(name: str) -> None:
    """Its own parent has gone already, or the flag makes no sense: the line says so."""
    with pytest.raises(ConfigError, match=rf"^--exit-with-parent: the parent is {name} \(pid 1\)"):
        kin(1, table(Process(1, 0, name, (name,))).get)


def test_a_process_is_read_as_it_is() -> None:
    """The one that runs the tests."""
    me = read_process(os.getpid())

    assert me is not None
    assert me.parent == os.getppid()
    assert me.words[1:] == tuple(sys.orig_argv[1:])
    assert read_process(2**22 + 1) is None


@contextmanager
def started(words: list[str], executable: str | None = None) -> Iterator["subprocess.Popen[bytes]"]:
    """A process of ours, and what it started, gone at the end of the block."""
    child = subprocess.Popen(words, executable=executable, env=surroundings())
    try:
        yield child
    finally:
        child.kill()
        child.wait()


def pid_of(out: Path) -> int | None:
    """The sidecar's process, as its ready line says."""
    line = out.read_bytes() if out.exists() else b""
    return orjson.loads(line)["pid"] if line.endswith(b"\n") else None


async def ready(out: Path) -> int:
    """The sidecar's process, once it is ready."""
    await until(lambda: pid_of(out), within_s=30)
    pid = pid_of(out)
    assert pid is not None
    return pid


def is_there(pid: int) -> bool:
    """Whether it runs; one that waits for its parent to hear of its end does not."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


@pytest.mark.process
@pytest.mark.parametrize("sidecar", ["serve", "sim"])
@pytest.mark.parametrize("between", [False, True])
async def test_a_parent_that_is_killed_leaves_no_sidecar(tmp_path: Path, sidecar: str, between: bool) -> None:
    """Within 5 s, be there a shell between that knows nothing of it."""
    out, errors = tmp_path / "out", tmp_path / "err"
    words = [sys.executable, "-m", "gateway", *SIDECARS[sidecar], "--exit-with-parent"]
    starts = [sys.executable, "-c", STARTS, str(out), str(errors), "600"]
    with started([*starts, *(shell(*words) if between else words)]) as parent:
        pid = await ready(out)
        try:
            process = read_process(pid)
            assert process is not None
            assert (process.parent == parent.pid) is not between
            parent.send_signal(signal.SIGKILL)
            await until(lambda: not is_there(pid), within_s=5)
        finally:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    assert "the parent has gone" in errors.read_text()


@pytest.mark.process
async def test_a_call_that_does_not_end_does_not_keep_an_orphan(tmp_path: Path) -> None:
    """Nor one that waits for its client, however long a drain may take: nobody is left to read the answer."""
    out, errors = tmp_path / "out", tmp_path / "err"
    async with engine() as (url, sim), ClientSession() as http:
        words = [sys.executable, "-m", "gateway", *SIDECARS["serve"], "--engine", url, "--exit-with-parent"]
        with started([sys.executable, "-c", STARTS, str(out), str(errors), "600", *words]) as parent:
            pid = await ready(out)
            try:
                sim[FAULTS].inject("stall", after=2)
                chat = f"{orjson.loads(out.read_bytes())['url']}/v1/chat/completions"
                call = asyncio.ensure_future(http.post(chat, json={"messages": HELLO}))
                await until(lambda: sim[JOURNAL].running)
                parent.send_signal(signal.SIGKILL)
                await until(lambda: not is_there(pid), within_s=5)
                await asyncio.gather(call, return_exceptions=True)
                await until(lambda: not sim[JOURNAL].running)
            finally:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)


@pytest.mark.process
async def test_without_the_flag_a_gateway_outlives_its_parent(tmp_path: Path) -> None:
    """As every server does."""
    out, errors = tmp_path / "out", tmp_path / "err"
    words = [sys.executable, "-m", "gateway", *SIDECARS["serve"]]
    starts = [sys.executable, "-c", STARTS, str(out), str(errors), "600"]
    with started([*starts, *words]) as parent:
        pid = await ready(out)
        parent.send_signal(signal.SIGKILL)
        await asyncio.sleep(2)
        assert is_there(pid)
        os.kill(pid, signal.SIGKILL)


@pytest.mark.process
async def test_one_whose_parent_has_gone_before_it_could_look_does_not_stay(tmp_path: Path) -> None:
    """It has been adopted by then; exit 2 and one line."""
    out, errors = tmp_path / "out", tmp_path / "err"
    init = tmp_path / "tini"
    init.symlink_to(PYTHON_ITSELF)
    words = [sys.executable, "-m", "gateway", *SIDECARS["sim"], "--exit-with-parent"]
    starts = [sys.executable, "-c", STARTS, str(out), str(errors), "0", *words]
    with started([str(init), "-c", ADOPTS, *starts]) as adopter:
        await until(lambda: adopter.poll() is not None, within_s=20)  # nobody is left to wait for
    assert out.read_bytes() == b""
    (line,) = errors.read_text().splitlines()
    assert line.startswith("gateway sim: --exit-with-parent: the parent is tini")
