"""The unit is one that systemd takes, restarts the gateway when that helps, and gives it the time to drain."""

import subprocess
import sys
from configparser import ConfigParser
from pathlib import Path

import pytest

from tests.deploy.manifests.variables import settings_of

FOLDER = Path(__file__).parent.parent.parent.parent / "deploy/systemd"
UNIT = (FOLDER / "rollout-gateway.service").read_text()


@pytest.fixture
def service() -> dict[str, str]:
    parser = ConfigParser(strict=False, interpolation=None, delimiters=("=",))
    parser.optionxform = str  # type: ignore[assignment,method-assign]  # names keep their case
    parser.read_string(UNIT)
    return dict(parser["Service"])


@pytest.fixture
def installed(tmp_path) -> Path:
    """The unit as on a machine where the program is: `verify` looks for it."""
    unit = tmp_path / "rollout-gateway.service"
    assert "/opt/rollout-gateway/bin/gateway" in UNIT
    unit.write_text(UNIT.replace("/opt/rollout-gateway/bin/gateway", sys.executable))
    return unit


def analyzed(*words: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["systemd-analyze", *map(str, words)], check=False, capture_output=True, text=True)


def test_systemd_takes_the_unit(installed):
    ran = analyzed("verify", "--man=no", installed)

    assert (ran.returncode, ran.stdout + ran.stderr) == (0, "")


def test_systemd_would_say_what_it_does_not_take(installed):
    installed.write_text(installed.read_text().replace("Restart=on-failure", "Restart=sometimes"))

    assert "sometimes" in analyzed("verify", "--man=no", installed).stderr


def test_little_of_the_machine_is_open_to_it(installed):
    """By systemd's own measure: 0 is nothing, 9.6 a unit that says nothing; it fails beyond 2.0."""
    ran = analyzed("security", "--offline=true", "--threshold=20", installed)

    assert ran.returncode == 0, ran.stdout


def test_neither_an_ill_setting_nor_an_end_that_was_asked_for_is_tried_again_and_the_drain_has_its_time(service):
    lines = [line.partition("=") for line in (FOLDER / "gateway.env").read_text().splitlines() if line[0] != "#"]

    settings = settings_of({name: value for name, _, value in lines})

    assert (service["Restart"], service["RestartPreventExitStatus"]) == ("on-failure", "2 3")
    assert float(service["TimeoutStopSec"]) >= settings.drain_timeout_s + 10
    assert service["EnvironmentFile"] == "/etc/rollout-gateway/gateway.env"
