"""The real Qwen3 tokenizer, under the name by which its renderer is matched, or under another."""

from copy import copy

import pytest

from gateway.render.registry import load_tokenizer


@pytest.fixture(scope="session")
def qwen(tokenizer_folder):
    return load_tokenizer(tokenizer_folder, "Qwen/Qwen3-8B")


@pytest.fixture(scope="session")
def named(qwen):
    """The same under another name: to load it again takes a second."""

    def under(name):
        other = copy(qwen)
        other.name_or_path = name
        return other

    return under
