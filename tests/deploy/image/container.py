"""A process of the image as a container engine would run it: its own root, read-only, its own PID 1, its user, no capability.

bubblewrap makes it, since an engine's own runtime needs cgroups that are not everywhere. Containers of one pod share a
network that has nothing but loopback.
"""

import json
import os
import select
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from tests.deploy.image.building import Image

CALL = Path(__file__).parent / "call.py"


@dataclass
class Container:
    """One that runs. `pid` is that of its PID 1, as this machine counts."""

    image: Image
    process: subprocess.Popen[str]
    pid: int
    environment: dict[str, str]

    @classmethod
    def start(cls, image: Image, arguments: list[str], environment: dict[str, str], beside: Self | None = None) -> Self:
        """The image's entry with `arguments`, and `environment` above the image's; in the network of `beside`."""
        variables = {**image.environment, **environment}
        reading, writing = os.pipe()
        with os.fdopen(reading) as told:
            process = subprocess.Popen(
                [*_network_of(beside), *_sandbox(image, variables, alone=beside is None, info_fd=writing)]
                + image.config["Entrypoint"]
                + arguments,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                pass_fds=[writing],
                env={"PATH": os.environ["PATH"]},
            )
            os.close(writing)
            pid = json.load(told)["child-pid"]
        return cls(image, process, pid, variables)

    def ready(self, patience_s: float = 60) -> dict[str, Any]:
        """The line that it prints when it accepts requests."""
        assert self.process.stdout is not None
        readable, _, _ = select.select([self.process.stdout], [], [], patience_s)
        line = self.process.stdout.readline() if readable else ""
        assert line, self.end(signal.SIGKILL)
        return json.loads(line)

    def status(self) -> dict[str, str]:
        """What the kernel says of its PID 1."""
        lines = Path(f"/proc/{self.pid}/status").read_text().splitlines()
        return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}

    def run(self, command: list[str]) -> subprocess.CompletedProcess[str]:
        """Another command in it, as a health check or a probe is."""
        user, _, group = self.image.config["User"].partition(":")
        enter = ["nsenter", "--target", str(self.pid), "--mount", "--pid", "--net", "--root", "--wd"]
        variables = [f"{name}={value}" for name, value in self.environment.items()]
        words = [*enter, "--setuid", user, "--setgid", group, "--", "env", "-i", *variables, *command]
        return subprocess.run(words, check=False, capture_output=True, text=True, timeout=30)

    def call(self, method: str, url: str, body: object = None, key: str = "") -> tuple[int, Any]:
        """An HTTP call from within its network: status and JSON."""
        words = [*_network_of(self), sys.executable, str(CALL), method, url, key]
        ran = subprocess.run(words, input=json.dumps(body), capture_output=True, text=True, timeout=60, check=True)
        return tuple(json.loads(ran.stdout))

    def end(self, number: signal.Signals = signal.SIGTERM, patience_s: float = 40) -> tuple[int, str]:
        """Its exit code and what it wrote to stderr after it is sent a signal, as an engine sends it: to its PID 1."""
        if self.process.poll() is None:
            os.kill(self.pid, number)
        try:
            _, errors = self.process.communicate(timeout=patience_s)
        except subprocess.TimeoutExpired:
            self.process.kill()
            _, errors = self.process.communicate()
            raise AssertionError(f"it does not end: {errors}") from None
        return self.process.returncode, errors


def _network_of(beside: Container | None) -> list[str]:
    return [] if beside is None else ["nsenter", "--target", str(beside.pid), "--net", "--"]


def _sandbox(image: Image, environment: dict[str, str], *, alone: bool, info_fd: int) -> list[str]:
    """The words that stand before the entry. Capabilities are those to become the image's user, who has none."""
    user, _, group = image.config["User"].partition(":")
    return [
        *["bwrap", "--ro-bind", str(image.root), "/", "--proc", "/proc", "--dev", "/dev", "--as-pid-1"],
        *["--unshare-pid", "--unshare-ipc", "--unshare-uts", "--die-with-parent", "--info-fd", str(info_fd)],
        *(["--unshare-net"] if alone else []),
        *["--cap-drop", "ALL", "--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID", "--cap-add", "CAP_SETPCAP"],
        *["--clearenv", *[word for item in environment.items() for word in ("--setenv", *item)]],
        *["--chdir", image.config["WorkingDir"], "--"],
        *["setpriv", "--reuid", user, "--regid", group, "--clear-groups", "--no-new-privs", "--bounding-set=-all"],
        *["--inh-caps=-all"],
    ]
