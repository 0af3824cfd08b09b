"""The tool that asks a Prometheus what panels ask: it fills in variables, and tells what has no data."""

import json
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar
from urllib.parse import parse_qs, urlsplit

import pytest

from tools import panels

Json = dict[str, Any]


class SimulatedPrometheus(BaseHTTPRequestHandler):
    """Answers as Prometheus does: all series are `value`, those of `empty` are not there."""

    value: ClassVar[str]
    empty: ClassVar[str]
    asked: ClassVar[list[str]]

    def do_GET(self) -> None:  # the base class has it so
        """One answer."""
        url = urlsplit(self.path)
        query = parse_qs(url.query).get("query", [""])[0]
        self.asked.append(query)
        point = [1.0, self.value]
        series = [] if self.empty and self.empty in query else [{"metric": {}, "value": point, "values": [point]}]
        data: Any = ["a.b:1", "c"] if "/label/" in url.path else {"result": series}
        body = json.dumps({"status": "success", "data": data}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Nothing."""


@pytest.fixture
def url() -> Iterator[str]:
    """Where one is, all of whose series have data."""
    SimulatedPrometheus.value, SimulatedPrometheus.empty, SimulatedPrometheus.asked = "1", "", []
    server = ThreadingHTTPServer(("127.0.0.1", 0), SimulatedPrometheus)
    serving = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    serving.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    serving.join()
    server.server_close()


def run(monkeypatch: pytest.MonkeyPatch, *words: str) -> int:
    """The tool's exit status."""
    monkeypatch.setattr(sys, "argv", ["panels", *words])
    return panels.main()


def test_every_query_is_asked_without_variables(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """All that a variable can be is put in for it, quoted as in a regular expression."""
    assert run(monkeypatch, url) == 0
    assert not [query for query in SimulatedPrometheus.asked if "$" in query]
    assert [query for query in SimulatedPrometheus.asked if r'instance=~"a\\.b:1|c"' in query]


def test_a_variable_can_be_given(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Then it is that, and no other."""
    assert run(monkeypatch, url, "--instance", "b") == 0
    assert [query for query in SimulatedPrometheus.asked if 'instance=~"b"' in query]
    assert not [query for query in SimulatedPrometheus.asked if 'instance=~"a' in query]


def test_a_panel_without_data_is_told_of(
    url: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit 1, and its line says 0."""
    SimulatedPrometheus.empty = "gateway_cuts_total"

    assert run(monkeypatch, url) == 1
    assert "1 without data" in capsys.readouterr().out


def test_what_is_no_number_is_no_data(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the quantile of nothing."""
    SimulatedPrometheus.value = "NaN"

    assert run(monkeypatch, url) == 1


def test_a_prometheus_that_is_not_there_is_a_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit 2, and no traceback."""
    assert run(monkeypatch, "http://127.0.0.1:9") == 2
    assert capsys.readouterr().err.startswith("panels: http://127.0.0.1:9 does not answer")
