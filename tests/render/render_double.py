"""A server that answers renders as a test says, on a real socket."""

import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from time import sleep
from typing import Any

import orjson

CLOSES = object()
"""The connection is closed, and nothing answered."""
DRIPS = object()
"""A header comes, letter by letter, for as long as somebody reads."""


class RenderDouble(ThreadingHTTPServer):
    """Answers with `answers`, oldest first, each a status, a body and headers, `CLOSES` or `DRIPS`; the last one stays."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answers: deque[Any] = deque()
        self.asked: list[tuple[str, dict[str, Any], dict[str, str]]] = []
        """Paths, bodies and headers of what came."""
        self.connections = 0
        self.reading = threading.Semaphore(0)
        """Released when somebody begins to read what drips, and when he leaves."""
        self.gate: threading.Barrier | None = None
        """Where answers wait for each other, if they do."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def says(self, *answers: Any) -> None:
        """What it answers from now on; of a body alone the status is 200."""
        self.answers = deque(
            one if isinstance(one, tuple) or one in (CLOSES, DRIPS) else (200, one, {}) for one in answers
        )

    def process_request(self, request, client_address) -> None:
        self.connections += 1
        super().process_request(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: RenderDouble

    def do_POST(self) -> None:
        body = orjson.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.asked.append((self.path, body, {name.lower(): value for name, value in self.headers.items()}))
        if self.server.gate is not None:
            self.server.gate.wait(5)
        answers = self.server.answers
        answer = answers.popleft() if len(answers) > 1 else answers[0]
        if answer is CLOSES:
            self.close_connection = True
            return
        if answer is DRIPS:
            self._drip()
            return
        status, said, headers = answer
        data = said if isinstance(said, bytes) else orjson.dumps(said)
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _drip(self) -> None:
        self.close_connection = True
        self.server.reading.release()
        with suppress(OSError):
            self.wfile.write(b"HTTP/1.1 200 OK\r\nX-Slow: ")
            while True:
                self.wfile.write(b"x")
                sleep(0.02)
        self.server.reading.release()

    def log_message(self, *_: object) -> None:
        """Nothing."""


@contextmanager
def render_double() -> Iterator[RenderDouble]:
    """One that serves until the end of the block."""
    with RenderDouble() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
