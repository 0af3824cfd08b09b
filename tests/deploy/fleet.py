"""A fleet on this machine: gateways as processes, a simulated engine that samples when it may, and a balancer."""

import asyncio
import random
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from aiohttp import web

from gateway.sim import JOURNAL
from gateway.sim.command import DEMO_TOKENIZER
from gateway.sim.keys import CONTROL
from gateway.sim.server import Entry
from gateway.sim.vocabulary import Vocabulary
from tests.deploy.child import Child
from tests.simulated import simulated

Json = dict[str, Any]
LIMIT_S = 60
"""Nothing here takes longer unless it is broken."""


def free_port() -> int:
    """A port that nobody listens on, of those that the system gives to no one else meanwhile, where it leaves some."""
    least = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    while True:
        wanted = random.randrange(10_000, least) if least > 12_000 else 0
        with suppress(OSError), socket.create_server(("127.0.0.1", wanted)) as taken:
            port: int = taken.getsockname()[1]
            return port


async def until(condition: Any, what: str) -> None:
    """Wait until `condition` holds."""
    try:
        async with asyncio.timeout(LIMIT_S):
            while not condition():
                await asyncio.sleep(0.01)
    except TimeoutError:
        raise AssertionError(f"never came: {what}") from None


class Turnstile(asyncio.Event):
    """In the place of the event that an engine waits for before each token: it lets all through, or some."""

    def __init__(self) -> None:
        super().__init__()
        self.set()
        self._permits = threading.Semaphore(0)
        self._shut = threading.Event()

    async def wait(self) -> Any:
        """Until it is open, or a token may pass."""
        while self._shut.is_set() and not self._permits.acquire(blocking=False):
            await asyncio.sleep(0.002)
        return True

    def shut(self) -> None:
        """Let nothing through any more."""
        while self._permits.acquire(blocking=False):
            pass
        self._shut.set()

    def open(self) -> None:
        """Let everything through."""
        self._shut.clear()

    def permit(self, tokens: int = 1) -> None:
        """Let so many tokens through."""
        self._permits.release(tokens)


class Engine:
    """The simulated engine of the fleet."""

    def __init__(self, url: str, app: web.Application) -> None:
        self.url = url
        self.turnstile = Turnstile()
        self._app = app
        app[CONTROL].stepping = self.turnstile

    def calls(self, session_id: str) -> list[Entry]:
        """What it was asked to generate for a session, in order."""
        return [entry for entry in self._app[JOURNAL].entries if entry.headers.get("x-session-id") == session_id]


@contextmanager
def engine() -> Iterator[Engine]:
    """A simulated engine with the tokenizer that comes along."""
    with simulated(model="rollout-gateway/demo", tokenizer=DEMO_TOKENIZER) as (url, app):
        yield Engine(url, app)


def script(text: str) -> list[int]:
    """`text` as ids of the engine's tokenizer, and the end of an answer."""
    vocabulary = Vocabulary(DEMO_TOKENIZER)
    end = vocabulary.id_of("<|im_end|>")
    assert end is not None
    return [*vocabulary.encode(text), end]


class Gateway:
    """One gateway as a process; its port stays its own while it is away."""

    def __init__(self, engine_url: str, log: Path) -> None:
        self.port = free_port()
        self.url = ""
        self._engine_url = engine_url
        self._log = log
        self._child: Child | None = None

    def start(self) -> None:
        """Begin to start; `wait` says when it is there."""
        settings = {
            "model": "rollout-gateway/demo",
            "engine": self._engine_url,
            "port": self.port,
            "stream-interval-tokens": 1,
        }
        words = [part for name, value in settings.items() for part in (f"--{name}", str(value))]
        self._child = Child(self._log, "serve", *words)

    def wait(self) -> None:
        """Wait until it accepts requests."""
        assert self._child is not None
        self.url = self._child.ready()

    def kill(self) -> None:
        """End it as the kernel does that has no memory left."""
        if self._child is not None:
            self._child.kill()


@contextmanager
def gateways(count: int, engine_url: str, folder: Path) -> Iterator[list[Gateway]]:
    """So many gateways, ready."""
    fleet = [Gateway(engine_url, folder / f"gateway-{number}.log") for number in range(count)]
    try:
        for one in fleet:
            one.start()
        for one in fleet:
            one.wait()
        yield fleet
    finally:
        for one in fleet:
            one.kill()
