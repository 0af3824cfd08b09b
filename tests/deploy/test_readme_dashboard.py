"""The README's five minutes, to their end: what a panel of the dashboards asks of a Prometheus that has looked on."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.deploy.fleet import free_port
from tests.readme.documents import ROOT, blocks_of

FIVE_MINUTES = [
    command
    for block in blocks_of(ROOT / "README.md")
    if block.language == "bash"
    for command in block.commands
    if not command.startswith("make ")
]


def command(start: str) -> str:
    """The README's first command that begins so."""
    return next(command for command in FIVE_MINUTES if command.startswith(start))


def panels_ask() -> list[str]:
    """What the dashboards ask of all gateways, over a minute."""
    boards = [json.loads(path.read_text()) for path in (ROOT / "deploy/grafana/dashboards").glob("*.json")]
    asked = [target["expr"] for board in boards for panel in board["panels"] for target in panel.get("targets", ())]
    return [re.sub(r"\{[^}]*\}", "", text).replace("$__rate_interval", "1m") for text in asked]


@contextmanager
def running(line: str) -> Iterator[None]:
    """A server of the README, in the shell that a reader has."""
    server = subprocess.Popen(["bash", "-c", f"exec {line.removesuffix('&')}"], stdout=subprocess.DEVNULL, cwd=ROOT)
    try:
        yield
    finally:
        server.terminate()
        server.wait(60)


def test_what_a_panel_asks_has_an_answer_after_the_readmes_commands(tmp_path: Path):
    """Commands as they stand there, but for ports and where files go; the query is the panel's own."""
    sim, gateway, prometheus = (str(free_port()) for _ in range(3))
    ports = {"8000": sim, "8080": gateway, "9090": prometheus}
    config = (ROOT / "deploy/prometheus/local.yml").read_text().replace("8080", gateway)
    (tmp_path / "local.yml").write_text(config)
    (tmp_path / "rules.yml").write_text((ROOT / "deploy/prometheus/rules.yml").read_text())

    def here(line: str) -> str:
        line = re.sub(
            "|".join(ports), lambda found: ports[found[0]], line.replace(".venv/bin", str(Path(sys.executable).parent))
        )
        line = line.replace("deploy/prometheus", str(tmp_path)).replace("$(mktemp -d)", f"{tmp_path}/data")
        return re.sub(r"2> (\w+\.log)", rf"2> {tmp_path}/\1", line)

    def said(line: str) -> str:
        return subprocess.run(
            ["bash", "-c", line], check=True, capture_output=True, text=True, timeout=90, cwd=ROOT
        ).stdout

    serve = here(command(".venv/bin/gateway serve")).replace(" 2> ", f" --port {gateway} 2> ")
    query = command("sleep 3")
    asked = re.search(r"'query=(.*?)'", query)
    assert asked is not None
    with ExitStack() as servers:
        for line in (here(command(".venv/bin/gateway sim")), serve, here(command("prometheus "))):
            servers.enter_context(running(line))
        said(here(command("curl --silent --fail")))
        said(here(command("until curl")))
        assert "one row: " in said(here(command(".venv/bin/python examples/")))
        (row,) = json.loads(said(here(command("curl --silent 'http://127.0.0.1:8080/trajectories"))))["data"]
        series = json.loads(said(here(query)))["data"]["result"]

    assert [turn["how"] for turn in row["turns"]][:2] == ["rendered", "bridged"]
    rates = {one["metric"]["how"]: float(one["value"][1]) for one in series}
    assert rates["bridged"] > 0
    assert asked[1] in panels_ask()
