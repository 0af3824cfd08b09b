"""The validators, installed on first use."""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

HERE = Path(__file__).parent


def printed(*command: str | Path, **environment: str) -> str:
    """What a command prints; where it fails, all that it said."""
    words = [str(word) for word in command]
    ran = subprocess.run(words, check=False, capture_output=True, text=True, env={**os.environ, **environment})
    assert ran.returncode == 0, f"{words}:\n{ran.stdout}\n{ran.stderr}"
    return ran.stdout


@pytest.fixture(scope="session")
def run() -> Callable[..., str]:
    """`printed`, for tests."""
    return printed


@pytest.fixture(scope="session")
def validators() -> Path:
    """The folder of hadolint, kubectl, kubernetes-validate and the Python that has the Prometheus Operator's types."""
    return Path(printed(HERE / "environment.sh").strip(), "bin")


@pytest.fixture(scope="session")
def compose() -> Path:
    """The folder of Compose and of its schemas."""
    return Path(printed(HERE / "compose.sh").strip())
