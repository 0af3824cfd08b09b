"""The agent under examination: a process, and what it is told of the gateway."""

import asyncio
import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Literal

from gateway.errors import ConfigError

Ended = Literal["exited", "timed_out", "interrupted"]

PATIENCE_S = 5.0
"""Between one request to end and the next, more urgent one."""
_KEY = "unused"
"""Whatever key the user has stays at home: the gateway asks for none."""


def environment_of(base_url: str, model: str) -> dict[str, str]:
    """What agents read to find their model; `docs/doctor.md` says who reads what."""
    return {
        **dict.fromkeys(("OPENAI_BASE_URL", "OPENAI_API_BASE", "HOSTED_VLLM_API_BASE"), base_url),
        **dict.fromkeys(("OPENAI_API_KEY", "HOSTED_VLLM_API_KEY"), _KEY),
        **dict.fromkeys(("OPENAI_MODEL", "OPENAI_MODEL_NAME", "OPENAI_DEFAULT_MODEL"), model),
        "MSWEA_MODEL_NAME": f"openai/{model}",
        "MSWEA_CONFIGURED": "true",
        "MSWEA_COST_TRACKING": "ignore_errors",
        **dict.fromkeys(("NO_PROXY", "no_proxy"), _unproxied()),
    }


def _unproxied() -> str:
    named = os.environ.get("NO_PROXY") or os.environ.get("no_proxy") or ""
    return ",".join(filter(None, ["127.0.0.1", "localhost", named]))


@dataclass(frozen=True, slots=True)
class End:
    """How a process ended."""

    how: Ended
    exit_code: int | None
    """Negative where a signal ended it."""
    seconds: float

    @property
    def well(self) -> bool:
        """Whether it ended by itself, and says that all is well."""
        return self.how == "exited" and self.exit_code == 0


@dataclass(slots=True)
class Agent:
    """A command to run once. Its output goes to our standard error, since standard output is for the report."""

    command: Sequence[str]
    timeout_s: float
    _stop: asyncio.Event = field(default_factory=asyncio.Event)

    async def run(self, base_url: str, model: str) -> End:
        """Run it to its end, or end it: after `timeout_s`, or when we are asked to end.

        Raises:
            ConfigError: there is no such command.
        """
        words = [word.replace("{base_url}", base_url).replace("{model}", model) for word in self.command]
        begun_s = time.monotonic()
        async with self._interruptible():
            try:
                child = await asyncio.create_subprocess_exec(
                    *words,
                    stdin=asyncio.subprocess.DEVNULL if sys.__stdin__ is None or sys.__stdin__.isatty() else None,
                    stdout=2,
                    stderr=2,
                    env=os.environ | environment_of(base_url, model),
                    start_new_session=True,  # so that it can be ended with all that it has started
                )
            except OSError as error:
                raise ConfigError(f"cannot run {words[0]!r}: {error.strerror or error}") from None
            how = await self._until_over(child)
        return End(how, child.returncode, time.monotonic() - begun_s)

    async def _until_over(self, child: asyncio.subprocess.Process) -> Ended:
        try:
            async with asyncio.TaskGroup() as group:
                over = group.create_task(child.wait())
                asked = group.create_task(self._stop.wait())
                done, _ = await asyncio.wait([over, asked], timeout=self.timeout_s, return_when="FIRST_COMPLETED")
                if over not in done:
                    await _end(child)
                asked.cancel()
        finally:
            _signal(child, signal.SIGKILL)  # and whatever it has left behind
        return "exited" if over in done else "interrupted" if asked in done else "timed_out"

    @asynccontextmanager
    async def _interruptible(self) -> AsyncIterator[None]:
        """Meanwhile SIGINT and SIGTERM end the agent, and we report what there was to see."""
        loop = asyncio.get_running_loop()
        numbers = signal.SIGINT, signal.SIGTERM
        for number in numbers:
            loop.add_signal_handler(number, self._stop.set)
        try:
            yield
        finally:
            for number in numbers:
                loop.remove_signal_handler(number)


async def _end(child: asyncio.subprocess.Process) -> None:
    """Ask it to end, as a terminal would, then as an operator would, then not at all."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
        _signal(child, number)
        with suppress(TimeoutError):
            await asyncio.wait_for(child.wait(), PATIENCE_S)
            return


def _signal(child: asyncio.subprocess.Process, number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, number)
