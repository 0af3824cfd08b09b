"""An environment with the installed wheel, and an empty folder to use it in."""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

HERE = Path(__file__).parent
Run = Callable[..., str]


@pytest.fixture(scope="session")
def environment() -> Path:
    """The environment, made on first use, with the wheel of this tree."""
    made = subprocess.run([HERE / "environment.sh"], stdout=subprocess.PIPE, text=True, check=True)
    return Path(made.stdout.strip())


@pytest.fixture
def run(environment: Path, tmp_path: Path) -> Run:
    """Run a program of the environment in an empty folder, with these files; what it prints."""

    def ran(*command: str, **files: str) -> str:
        for name, text in files.items():
            (tmp_path / f"{name}.py").write_text(text)
        foreign = ("GATEWAY_", "PYTHON", "PYTEST", "COV", "VIRTUAL_ENV")
        clean = {name: value for name, value in os.environ.items() if not name.startswith(foreign)}
        done = subprocess.run(
            [environment / "bin" / command[0], *command[1:]],
            cwd=tmp_path,
            env=clean | {"PATH": f"{environment}/bin:{os.environ['PATH']}", "HF_HUB_OFFLINE": "1"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    return ran
