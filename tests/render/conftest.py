"""The real Qwen3 tokenizer, under the name by which its renderer is matched, or under another; how that is chosen."""

import subprocess
from copy import copy
from pathlib import Path

import pytest

from gateway.render import tinker
from gateway.render.options import Options
from gateway.render.registry import load_tokenizer
from gateway.render.resolution import resolution_of
from tests.render.doubles import PlainRenderer


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


@pytest.fixture(scope="session")
def deepseek():
    """The real one of DeepSeek-V3, whose template is its own, too."""
    script = Path(__file__).parents[1] / "tokenizers" / "environment.sh"
    folder = subprocess.run([script, "deepseek_v3"], check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
    return load_tokenizer(folder, "my/finetune")


@pytest.fixture
def resolution(qwen):
    """The choice for a model by its name, over Qwen3's tokenizer unless another is given."""

    def of(model="Qwen/Qwen3-8B", renderer="auto", tokenizer=qwen, retention=None, **options):
        return resolution_of(model, tokenizer, renderer, retention=retention, options=Options(**options))

    return of


@pytest.fixture
def tinker_double(monkeypatch):
    """A double of the tinker backend, which knows what it is told; its package is there unless it is told otherwise."""

    def install(knows=("Qwen/Qwen3-8B", "mine/tuned"), fails=None):
        def make(name, tokenizer, **options):
            if fails is not None:
                raise fails
            renderer = PlainRenderer()
            renderer.seen = [name, tokenizer, options]
            return renderer

        monkeypatch.setattr(tinker, "name_for", lambda model: "double" if model in knows else None)
        monkeypatch.setattr(tinker, "TinkerRenderer", make)

    return install
