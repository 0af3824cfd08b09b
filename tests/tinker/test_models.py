"""The list of models and renderers, beside what the cookbook recommends; and Fireworks' registration."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest
from tinker_cookbook import renderers

from gateway.errors import ConfigError
from gateway.render.registry import renderers_for
from gateway.render.tinker import TinkerRenderer, is_fireworks, models, name_for
from tests.tinker.test_rendering import LLAMA, QWEN, made
from tests.tinker.tokenizers import tokenizer

pytestmark = pytest.mark.xdist_group("tokenizers")  # each loaded once
TOOL = Path(__file__).parents[2] / "tools" / "tinker_models.py"


def test_the_list_is_that_of_the_version_that_is_installed():
    """If not: run the tool that writes it."""
    spec = importlib.util.spec_from_file_location("tinker_models", TOOL)
    assert spec
    assert spec.loader
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    assert models()["tinker_cookbook"] == tool.recommended()


def test_the_cookbook_knows_none_of_the_names_that_are_said_to_be_fireworks_alone():
    """Or it would have to be asked first."""
    names = {name_for(model) for model in models()["tinker_cookbook"]["models"]}
    assert not any(is_fireworks(str(name)) for name in names)


def test_a_model_that_only_the_cookbook_knows_is_served_by_it():
    """Without anybody having said so; rows name the renderer that did it, and its version."""
    served, _ = renderers_for("auto", tokenizer(*LLAMA), None, retention="template", bridgeless_ok=False)
    assert (served.chosen.backend, served.chosen.name) == ("tinker", "llama3")
    mark = served.get({}).mark
    assert (mark.name, mark.version) == ("tinker_cookbook.renderers.llama3.Llama3Renderer", "0.6.1")


@pytest.fixture
def fireworks_double(monkeypatch):
    """Stands for `training.renderer`: to import it registers a renderer under one of Fireworks' names."""

    def registered(*names: str) -> None:
        def make(tokenizer, image_processor=None):
            return renderers.get_renderer("qwen3", tokenizer)

        for name in names:
            renderers.register_renderer(name, make)
        monkeypatch.setitem(sys.modules, "training", ModuleType("training"))
        monkeypatch.setitem(sys.modules, "training.renderer", ModuleType("training.renderer"))

    yield registered
    for name in renderers.get_registered_renderer_names():
        renderers.unregister_renderer(name)


def test_fireworks_renderers_are_those_that_it_registers(fireworks_double):
    """Under the names of the list."""
    fireworks_double("kimi_k27_code")
    name = name_for("moonshotai/Kimi-K2.7-Code")
    assert name == "kimi_k27_code"
    assert isinstance(made(name, QWEN), TinkerRenderer)


def test_a_cookbook_of_another_version_may_not_have_a_name(fireworks_double):
    """Which version we know is said."""
    fireworks_double()
    with pytest.raises(ConfigError, match=r"registers no renderer 'minimax_m3' \(known of version 76821fa\)"):
        made("minimax_m3", QWEN)
