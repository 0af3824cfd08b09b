"""The real Qwen3 tokenizer, fetched once a machine."""

import subprocess
from pathlib import Path

import pytest

from gateway.render.registry import load_tokenizer

ENVIRONMENT = Path(__file__).parent.parent / "vllm" / "environment.sh"


@pytest.fixture(scope="session")
def qwen_folder() -> str:
    cache = subprocess.run([ENVIRONMENT, "tokenizer"], check=True, capture_output=True, text=True).stdout.strip()
    return f"{cache}/tokenizer-qwen3-3.7.2"


@pytest.fixture(scope="session")
def qwen(qwen_folder):
    return load_tokenizer(qwen_folder, "Qwen/Qwen3-8B")
