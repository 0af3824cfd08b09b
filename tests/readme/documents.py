"""A document's commands and code, followed as a reader would: from top to bottom, ports aside."""

import io
import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aiohttp.test_utils import unused_port

ROOT = Path(__file__).parents[2]
LIMIT_S = 60.0
_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_PROGRAM = re.compile(r"\.venv/bin/(gateway|python)")
_PROGRAMS = {"gateway": f"{sys.executable} -m gateway", "python": sys.executable}
_PORT = re.compile(r"(?<=127\.0\.0\.1:)\d{4,5}|(?<=--port )\d{4,5}")


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block."""

    language: str
    text: str

    @property
    def commands(self) -> list[str]:
        """Its lines, those that a backslash continues joined, without comments."""
        lines = self.text.replace("\\\n", " ").splitlines()
        return [line for line in lines if line.strip() and not line.startswith("#")]


def texts_of(document: Path, language: str) -> list[str]:
    """Its fenced blocks of one language."""
    return [block.text for block in blocks_of(document) if block.language == language]


def blocks_of(document: Path) -> list[Block]:
    """The fenced blocks of a document."""
    return [Block(language, text) for language, text in _BLOCK.findall(document.read_text())]


@dataclass
class Reader:
    """Who follows a document. Servers run until the end; Python's blocks share their names."""

    document: Path
    printed: list[str] = field(default_factory=list)
    """What each command, and each block of Python, printed; but for servers."""
    names: dict[str, Any] = field(default_factory=lambda: {"__name__": "__document__"})
    _ports: dict[str, str] = field(default_factory=dict)
    _servers: list[subprocess.Popen[str]] = field(default_factory=list)

    def follow(self) -> None:
        """Do all that the document says, in bash and in Python; whatever fails there, fails here."""
        for block in blocks_of(self.document):
            match block.language:
                case "bash":
                    for command in block.commands:
                        self._run(self.here(command))
                case "python":
                    printed = io.StringIO()
                    with redirect_stdout(printed):
                        exec(compile(self.here(block.text), str(self.document), "exec"), self.names)
                    self.printed.append(printed.getvalue())

    def here(self, text: str) -> str:
        """The text with the interpreter of this run, and with free ports in the place of the document's."""
        text = _PORT.sub(lambda found: self._ports.setdefault(found[0], str(unused_port())), text)
        return _PROGRAM.sub(lambda found: _PROGRAMS[found[1]], text)

    def _run(self, command: str) -> None:
        if command.endswith("&"):
            self._servers.append(started(command))
            return
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        done = subprocess.run(
            ["bash", "-c", command],
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            cwd=ROOT,
            env=environment,
            check=False,
        )
        assert done.returncode == 0, f"{command}: {done.stderr[-3000:]}"
        self.printed.append(done.stdout)

    def close(self) -> None:
        """Close what Python's blocks left open, and end the servers, the last one first."""
        for value in self.names.values():
            if not isinstance(value, type) and callable(close := getattr(value, "close", None)):
                close()
        for server in reversed(self._servers):
            server.terminate()
            server.communicate(timeout=LIMIT_S)


def started(command: str) -> subprocess.Popen[str]:
    """A server that a document starts, ready."""
    words = shlex.split(command.removesuffix("&").partition(" 2> ")[0])
    server = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, cwd=ROOT)
    assert server.stdout is not None
    assert json.loads(server.stdout.readline())["event"] == "ready", command
    return server


@contextmanager
def followed(name: str) -> Iterator[Reader]:
    """A document of ``docs/``, followed to its end; its servers run while the block does."""
    reader = Reader(ROOT / "docs" / name)
    try:
        reader.follow()
        yield reader
    finally:
        reader.close()
