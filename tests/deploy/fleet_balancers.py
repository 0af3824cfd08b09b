"""HAProxy and nginx as Debian packages them, with our example files."""

import asyncio
import signal
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import aiohttp
from aiohttp.test_utils import unused_port

from tests.deploy.fleet import LIMIT_S, Gateway, until

DEPLOY = Path(__file__).parent.parent.parent / "deploy"


class Balancer:
    """A balancer with one of our example files, in which only addresses and paths are others."""

    program = ""
    example = Path()
    reload_signal = signal.SIGHUP
    placeholder = ""
    """How a gateway's address begins in the example."""

    def __init__(self, folder: Path, fleet: Sequence[Gateway]) -> None:
        self.port = unused_port()
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
