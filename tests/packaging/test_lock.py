"""The lock names one version of everything that `make setup` installs, and no place to get it from."""

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).parents[2]
LINES = (ROOT / "requirements-dev.lock").read_text().splitlines()
CLIENTS = (ROOT / "tests" / "clients" / "requirements.txt").read_text().splitlines()
"""The agent packages that are tested against, and all that they need."""
LOCKED = {canonicalize_name(name): Version(version) for name, _, version in (line.partition("==") for line in LINES)}
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


@pytest.mark.parametrize("lines", [LINES, CLIENTS], ids=["project", "clients"])
def test_each_line_is_one_exact_version(lines: list[str]) -> None:
    """No index, no file, no address, nothing twice, and not the project itself."""
    assert not [line for line in lines if not re.fullmatch(r"[A-Za-z0-9._-]+==[0-9][A-Za-z0-9.+!]*", line)]
    assert len({canonicalize_name(line.partition("==")[0]) for line in lines}) == len(lines)
    assert "rollout-gateway" not in LOCKED


def test_it_meets_every_need_of_the_project() -> None:
    """A dependency that is added or raised without a new lock is found here."""
    extras = PROJECT["optional-dependencies"]
    needs = [Requirement(text) for text in [*PROJECT["dependencies"], *extras["prime"], *extras["dev"]]]

    unmet = [
        str(need) for need in needs if LOCKED.get(canonicalize_name(need.name), Version("0")) not in need.specifier
    ]
    assert not unmet


def test_setup_installs_what_is_locked() -> None:
    """Here as in CI, which runs the same target."""
    makefile = (ROOT / "Makefile").read_text()

    assert "--constraint requirements-dev.lock" in makefile
    assert "make check" in (ROOT / ".ci" / "run").read_text()
