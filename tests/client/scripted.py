"""A server that answers as it is told, one answer after the other, and remembers what it was asked."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import orjson

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Told:
    """An answer."""

    status: int = 200
    body: Json | list[Json] | bytes = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)
    after_s: float = 0.0


HANG_UP = Told(0)
"""In place of an answer: the connection is closed."""


def refused(status: int, code: str, **headers: str) -> Told:
    """A refusal as the gateway words it."""
    error = {"message": f"no: {code}", "type": "server_error", "param": None, "code": code}
    return Told(status, {"error": error}, {name.replace("_", "-"): value for name, value in headers.items()})


@dataclass(frozen=True, slots=True)
class Asked:
    """What it was asked."""

    method: str
    path: str
    headers: dict[str, str]
    body: Any


class Scripted(ThreadingHTTPServer):
    """The last answer is given again and again."""

    daemon_threads = True
    block_on_close = False

    def __init__(self, address: tuple[str, int] = ("127.0.0.1", 0)) -> None:
        super().__init__(address, _Handler)
        self.answers: list[Told] = []
        self.asked: list[Asked] = []

    @property
    def url(self) -> str:
        """Where it is."""
        return f"http://127.0.0.1:{self.server_address[1]}"

    def told(self, *answers: Told) -> "Scripted":
        """It answers so."""
        self.answers[:] = answers
        return self

    def next(self) -> Told:
        """The answer to what it was asked last."""
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


class _Handler(BaseHTTPRequestHandler):
    server: Scripted
    protocol_version = "HTTP/1.1"

    def _answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        headers = {name.lower(): value for name, value in self.headers.items()}
        self.server.asked.append(Asked(self.command, self.path, headers, orjson.loads(body) if body else None))
        told = self.server.next()
        if told is HANG_UP:
            self.close_connection = True
            return
        time.sleep(told.after_s)
        data = told.body if isinstance(told.body, bytes) else orjson.dumps(told.body)
        self.send_response(told.status)
        for name, value in {"Content-Length": str(len(data)), **told.headers}.items():
            self.send_header(name, value)
        with suppress(ConnectionError):  # nobody waits any more
            self.end_headers()
            self.wfile.write(data)

    do_GET = do_POST = do_DELETE = _answer  # noqa: N815  # the library's names

    def log_message(self, *_: object) -> None:
        """Nothing."""


@contextmanager
def scripted(address: tuple[str, int] = ("127.0.0.1", 0)) -> Iterator[Scripted]:
    """Such a server, while it serves."""
    with Scripted(address) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
