"""`gateway` as a process beside others."""

import json
import subprocess
import sys
from pathlib import Path

from tests.surroundings import surroundings


class Child:
    """A `gateway` process, be it a gateway or a simulated engine; its standard error goes on in `log`."""

    def __init__(self, log: Path, *words: str) -> None:
        self._log = log
        with log.open("ab") as errors:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "gateway", *words],
                stdout=subprocess.PIPE,
                stderr=errors,
                env=surroundings(HF_HUB_OFFLINE="1"),
            )

    def ready(self) -> str:
        """Its URL, once it serves."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, self._log.read_text()
        url: str = json.loads(line)["url"]
        return url.rstrip("/")

    def send(self, number: int) -> None:
        """A signal."""
        self._process.send_signal(number)

    def kill(self) -> None:
        """Its end, which it is told of by nobody."""
        if self._process.returncode is None:
            self._process.kill()
            self._process.communicate()
