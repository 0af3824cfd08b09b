"""`gateway` as a process."""

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import orjson

from gateway.sim import create_sim
from tests.edge.house import Application, Json, serving
from tests.surroundings import surroundings

START_S, END_S = 30, 5


class Process:
    """A running `gateway`; its standard error goes to a file, which never fills up."""

    def __init__(self, child: asyncio.subprocess.Process, errors: Path) -> None:
        self.child = child
        self._errors = errors
        self.url = ""

    @property
    def errors(self) -> str:
        """All that it has written to standard error."""
        return self._errors.read_text()

    async def line(self) -> bytes:
        """The next line of standard output; empty when there are no more."""
        assert self.child.stdout is not None
        return await asyncio.wait_for(self.child.stdout.readline(), START_S)

    async def ready(self) -> Json:
        """The ready line."""
        line = await self.line()
        assert line, self.errors
        announced: Json = orjson.loads(line)
        self.url = announced["url"]
        return announced

    async def ended(self, within_s: float = START_S) -> int:
        """The exit status, once it has ended by itself."""
        return await asyncio.wait_for(self.child.wait(), within_s)


@asynccontextmanager
async def gateway(
    tmp_path: Path,
    *args: str,
    env: Mapping[str, str] | None = None,
    stdout: int = asyncio.subprocess.PIPE,
    stderr: int | None = None,
) -> AsyncIterator[Process]:
    """`gateway` with these arguments; killed at the end of the block if it still runs. `stderr` in place of a file."""
    errors = tmp_path / f"{time.monotonic_ns()}.err"
    environment = surroundings(HF_HUB_OFFLINE="1", COLUMNS="200", NO_COLOR="1") | dict(env or {})
    with errors.open("wb") as file:
        child = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "gateway", *args),
            stdout=stdout,
            stderr=file if stderr is None else stderr,
            env=environment,
        )
    try:
        yield Process(child, errors)
    finally:
        if child.returncode is None:
            with suppress(ProcessLookupError):
                child.kill()
        await child.communicate()


def flags(**settings: object) -> list[str]:
    """Settings as flags of `serve`."""
    return [
        "serve",
        *(part for name, value in settings.items() for part in (f"--{name.replace('_', '-')}", str(value))),
    ]


@asynccontextmanager
async def engine() -> AsyncIterator[tuple[str, Application]]:
    """A sim and its URL."""
    sim = create_sim()
    async with serving(sim) as server:
        yield str(server.make_url("")), sim
