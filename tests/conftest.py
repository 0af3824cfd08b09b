"""What more than one room's tests need."""

import subprocess
from pathlib import Path

import pytest
import structlog
from hypothesis import settings

_TOKENIZER = "tokenizer-qwen3-3.7.2"

# How far property tests look: `make check` and `make check-deep`. Machines share their cores, so no example has a deadline.
structlog.configure()  # as it comes, so that each test's log is caught with its output

settings.register_profile("default", max_examples=100, deadline=None)
settings.register_profile("deep", max_examples=5000, deadline=None)
settings.load_profile("default")


@pytest.fixture(scope="session")
def tokenizer_folder() -> str:
    """The folder of the real Qwen3 tokenizer, made by the script on first use."""
    script = Path(__file__).parent / "vllm" / "environment.sh"
    cache = subprocess.run([script, "tokenizer"], check=True, capture_output=True, text=True).stdout.strip()
    return str(Path(cache) / _TOKENIZER)
