"""What more than one room's tests need."""

import subprocess
from pathlib import Path

import pytest

_TOKENIZER = "tokenizer-qwen3-3.7.2"


@pytest.fixture(scope="session")
def tokenizer_folder() -> str:
    """The folder of the real Qwen3 tokenizer, made by the script on first use."""
    script = Path(__file__).parent / "vllm" / "environment.sh"
    cache = subprocess.run([script, "tokenizer"], check=True, capture_output=True, text=True).stdout.strip()
    return str(Path(cache) / _TOKENIZER)
