"""The real Qwen3 tokenizer, under the name by which its renderer is matched."""

import pytest

from gateway.render.registry import load_tokenizer


@pytest.fixture(scope="session")
def qwen(tokenizer_folder):
    return load_tokenizer(tokenizer_folder, "Qwen/Qwen3-8B")
