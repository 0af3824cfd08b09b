"""Debian's own Prometheus over the files of deploy/prometheus, on a clock that runs faster."""

import json
import re
import shutil
import signal
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import urllib3
from aiohttp.test_utils import unused_port

from tests.deploy.fleet import LIMIT_S

Json = dict[str, Any]
FOLDER = Path(__file__).parent.parent.parent / "deploy" / "prometheus"
PROMETHEUS, PROMTOOL = "/usr/bin/prometheus", "/usr/bin/promtool"
KEY_FILE, TARGET = "/run/secrets/gateway_admin_key", "gateway:8080"
"""What prometheus.yml says of the key and the gateway of deploy/compose, and a test puts its own in the place of."""


def hurried(rules: str) -> str:
    """The rules with each minute of a window and of a ``for`` made a second; thresholds stay."""
    rules = re.sub(r"\[(\d+)m\]", r"[\1s]", rules)
    rules = re.sub(r"^( +for: \d+)m$", r"\1s", rules, flags=re.MULTILINE)
    assert not re.search(r"\b\d+[mhd]\b", rules)
    return rules


def configured(folder: Path, target: str, fleet: str, key: str) -> Path:
    """prometheus.yml and its rules in a folder: scraped each second are `target` and, found by file, `fleet`."""
    key_file = folder / "key"
    key_file.write_text(key)
    text = (FOLDER / "prometheus.yml").read_text()
    assert text.count(f'"{TARGET}"') == 1
    assert text.count(KEY_FILE) == text.count("authorization:") == 2
    assert text.count("15s") == 2
    text = text.replace(TARGET, target).replace(KEY_FILE, str(key_file)).replace("15s", "1s")
    (folder / "prometheus.yml").write_text(text)
    (folder / "rules.yml").write_text(hurried((FOLDER / "rules.yml").read_text()))
    (folder / "fleet").mkdir()
    example = (FOLDER / "fleet.example.yml").read_text()
    (folder / "fleet" / "main.yml").write_text(re.sub(r"targets: \[.*\]", f'targets: ["{fleet}"]', example))
    return folder / "prometheus.yml"


def promtool(*words: str, given: bytes = b"") -> tuple[int, str]:
    """The exit status of promtool and all that it says."""
    command = [PROMTOOL, *words]
    done = subprocess.run(  # its status is for the caller to judge
        command, check=False, input=given, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=LIMIT_S
    )
    return done.returncode, done.stdout.decode()


class Prometheus:
    """One that runs."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._http = urllib3.PoolManager(retries=urllib3.Retry(connect=100, backoff_factor=0.1, backoff_max=0.2))

    def ask(self, expression: str) -> dict[str, float]:
        """The series of an expression now, by their labels as sorted JSON."""
        data = self._get("query", {"query": expression})
        return {json.dumps(one["metric"], sort_keys=True): float(one["value"][1]) for one in data["result"]}

    def firing(self) -> list[Json]:
        """The alerts that fire: labels and annotations."""
        return [alert for alert in self._get("alerts", {})["alerts"] if alert["state"] == "firing"]

    def targets(self) -> list[Json]:
        """What is scraped, and what came of it."""
        targets: list[Json] = self._get("targets", {"state": "active"})["activeTargets"]
        return targets

    def _get(self, path: str, fields: Mapping[str, str]) -> Any:
        body = self._http.request("GET", f"{self.url}/api/v1/{path}", fields=dict(fields)).json()
        assert body["status"] == "success", body
        return body["data"]


@contextmanager
def prometheus(config: Path) -> Iterator[Prometheus]:
    """A Prometheus with this configuration and data of its own beside it; it ends with the block."""
    port, data = unused_port(), config.parent / "data"
    words = [f"--config.file={config}", f"--storage.tsdb.path={data}", f"--web.listen-address=127.0.0.1:{port}"]
    with (config.parent / "prometheus.log").open("wb") as log:
        process = subprocess.Popen([PROMETHEUS, *words], stdout=log, stderr=log)
    try:
        yield Prometheus(f"http://127.0.0.1:{port}")
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(LIMIT_S)
        shutil.rmtree(data, ignore_errors=True)
