"""packages.sh: what is missing is installed once, however many ask for it, and nothing is started meanwhile."""

import os
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parent / "packages.sh"
PROGRAMS = {
    "dpkg-query": 'grep -qs "^install .* ${!#}$" log && echo installed',
    "apt-get": 'echo "$1 with $(test -x policy && ./policy; echo $?): ${!#}" >> log.new; sleep 0.2; '
    '[ "$1" = update ] || echo "install of ${!#}" >> log.new; cat log.new >> log; rm log.new',
    "id": "echo ${USER_ID:-0}",
}
"""In the place of Debian's: they know what `log` says."""


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """Where those are found before others."""
    (tmp_path / "bin").mkdir()
    for name, text in PROGRAMS.items():
        (tmp_path / "bin" / name).write_text(f"#!/bin/bash\n{text}\n")
        (tmp_path / "bin" / name).chmod(0o755)
    return {**os.environ, "PATH": f"{tmp_path}/bin:{os.environ['PATH']}", "PACKAGES_POLICY": "policy"}


def asking(folder: Path, environment: dict[str, str]) -> subprocess.Popen[str]:
    """One that needs a package."""
    words = ["bash", "-c", f"set -euo pipefail; . {SCRIPT}; packages one"]
    pipe, nothing = subprocess.PIPE, subprocess.DEVNULL
    return subprocess.Popen(words, cwd=folder, env=environment, stdin=nothing, stdout=pipe, stderr=pipe, text=True)


def test_two_that_ask_at_once_install_once_and_start_no_service(tmp_path: Path, environment: dict[str, str]) -> None:
    """101 is what keeps a service from being started; the file that says it is gone afterwards."""
    both = [asking(tmp_path, environment) for _ in range(2)]

    assert [one.communicate() for one in both] == [("", "")] * 2
    assert [one.returncode for one in both] == [0, 0]
    said = (tmp_path / "log").read_text().splitlines()
    assert said == ["update with 101: --quiet", "install with 101: one", "install of one"]
    assert not (tmp_path / "policy").exists()


def test_who_may_not_install_is_told_what_is_missing(tmp_path: Path, environment: dict[str, str]) -> None:
    """In a line to be typed."""
    one = asking(tmp_path, {**environment, "USER_ID": "1000"})

    _, errors = one.communicate()

    assert one.returncode == 1
    assert errors == "these packages are missing, and only root can install them: apt-get install one\n"
