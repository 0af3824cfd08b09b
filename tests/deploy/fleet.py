"""A fleet on this machine: gateways as processes, a simulated engine that samples when it may, and a balancer."""

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import aiohttp
from aiohttp import web
from yarl import URL

from gateway.sim import JOURNAL
from gateway.sim.command import DEMO_TOKENIZER
from gateway.sim.keys import CONTROL
from gateway.sim.server import Entry
from gateway.sim.vocabulary import Vocabulary
from tests.simulated import simulated

Json = dict[str, Any]
LIMIT_S = 60
"""Nothing here takes longer unless it is broken."""


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
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
    """One gateway as a process, on a port that stays its own."""

    def __init__(self, engine_url: str, log: Path) -> None:
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._engine_url = engine_url
        self._log = log
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        """Begin to start; `wait` says when it is there."""
        settings = {
            "model": "rollout-gateway/demo",
            "engine": self._engine_url,
            "port": self.port,
            "stream-interval-tokens": 1,
        }
        words = [part for name, value in settings.items() for part in (f"--{name}", str(value))]
        clean = {name: value for name, value in os.environ.items() if not name.startswith("GATEWAY_")}
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "gateway", "serve", *words],
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env={**clean, "HF_HUB_OFFLINE": "1"},
            )

    def wait(self) -> None:
        """Wait until it accepts requests."""
        assert self._process is not None
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, self._log.read_text()
        assert json.loads(line)["event"] == "ready"

    def kill(self) -> None:
        """End it as the kernel does that has no memory left."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None


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


class Balancer:
    """A balancer with one of our example files, in which only addresses and paths are others."""

    program = ""
    example = Path()
    reload_signal = signal.SIGHUP
    placeholder = ""
    """How a gateway's address begins in the example."""

    def __init__(self, folder: Path, fleet: Sequence[Gateway]) -> None:
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.folder = folder
        self.log = folder / "log"
        self._write(fleet)
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(self.command(), stdout=log, stderr=log, stdin=subprocess.DEVNULL)

    @property
    def file(self) -> Path:
        """Its settings."""
        return self.folder / self.example.name

    def command(self) -> list[str]:
        """What starts it."""
        raise NotImplementedError

    def moved(self, text: str) -> str:
        """The example with this machine's paths and port."""
        raise NotImplementedError

    def retired(self) -> int:
        """How many processes have been told to serve their last clients and end."""
        raise NotImplementedError

    def _write(self, fleet: Sequence[Gateway]) -> None:
        lines: list[str] = []
        for line in self.moved(self.example.read_text()).splitlines():
            here = line.partition(" #")[0].rstrip() if "10.0.0." in line else ""
            if not here:
                lines.append(line)
            elif "10.0.0.1:" in here:  # the others are written as the first one is
                for number, one in enumerate(fleet, start=1):
                    numbered = here.replace("server g1", f"server g{number}").replace("id 1", f"id {number}")
                    lines.append(numbered.replace("10.0.0.1:8080", f"127.0.0.1:{one.port}"))
        self.file.write_text("\n".join(lines) + "\n")

    async def ready(self) -> None:
        """Wait until it listens and takes a gateway for ready."""
        async with asyncio.timeout(LIMIT_S), aiohttp.ClientSession() as http:
            while True:
                assert self._process.poll() is None, self.log.read_text()
                with suppress(aiohttp.ClientError):
                    async with http.get(f"{self.url}/health") as answer:
                        if answer.status == 200:
                            return
                await asyncio.sleep(0.02)

    async def reload(self, fleet: Sequence[Gateway]) -> None:
        """Change the fleet, and wait until only the new settings take connections."""
        before = self.retired()
        self._write(fleet)
        self._process.send_signal(self.reload_signal)
        await until(lambda: self.retired() > before, "the end of the old settings")
        await self.ready()

    def end(self) -> None:
        """End it at once."""
        self._process.terminate()
        self._process.wait(LIMIT_S)


DEPLOY = Path(__file__).parent.parent.parent / "deploy"


class HAProxy(Balancer):
    """Debian's HAProxy."""

    program = "haproxy"
    example = DEPLOY / "haproxy" / "haproxy.cfg"
    reload_signal = signal.SIGUSR2

    def command(self) -> list[str]:
        return ["haproxy", "-W", "-db", "-f", str(self.file)]

    def moved(self, text: str) -> str:
        return text.replace("bind :8080", f"bind 127.0.0.1:{self.port}")

    def retired(self) -> int:
        return self.log.read_text().count("Proxy agents stopped")


class Nginx(Balancer):
    """Debian's nginx."""

    program = "nginx"
    example = DEPLOY / "nginx" / "nginx.conf"

    def command(self) -> list[str]:
        return ["nginx", "-e", str(self.folder / "error.log"), "-c", str(self.file), "-g", "daemon off;"]

    def moved(self, text: str) -> str:
        here = text.replace("/run/nginx.pid", f"{self.folder}/pid").replace("/var/log/nginx", str(self.folder))
        return here.replace("listen 8080", f"listen 127.0.0.1:{self.port}").replace("auto;", "2;")

    def retired(self) -> int:
        return (self.folder / "error.log").read_text().count("gracefully shutting down") // 2  # one line a process


class Client:
    """An agent or a trainer; its paths are sent as they stand."""

    def __init__(self, http: aiohttp.ClientSession, base: str) -> None:
        self._http = http
        self._base = base

    def post(self, path: str, body: Json, **headers: str) -> Any:
        """A request with a body, to be entered as a context; underscores in the names of headers are dashes."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return self._http.post(URL(self._base + path, encoded=True), json=body, headers=named)

    async def status(self, path: str, body: Json | None = None, **headers: str) -> int:
        """What a GET is answered with, or with a body a POST."""
        if body is not None:
            async with self.post(path, body, **headers) as answer:
                await answer.read()
                status: int = answer.status
                return status
        async with self._http.get(URL(self._base + path, encoded=True)) as answer:
            await answer.read()
            return answer.status

    async def sessions(self, gateway: Gateway) -> set[str]:
        """The names of all sessions that a gateway knows, by its own word."""
        names, query = set(), "limit=500"
        while query:
            async with self._http.get(URL(f"{gateway.url}/sessions?{query}", encoded=True)) as answer:
                page = await answer.json()
            names |= {session["session_id"] for session in page["data"]}
            query = f"limit=500&cursor={page['next']}" if page["next"] else ""
        return names
