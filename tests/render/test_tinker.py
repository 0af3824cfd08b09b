"""What of the backend over tinker-cookbook needs no cookbook; the rest is tried in ``tests/tinker``, with the real one."""

import sys
from types import ModuleType
from typing import Any

import pytest

from gateway.core.types import Sampling
from gateway.errors import BadRequest, ConfigError, MultimodalUnsupported, PackageAbsent, RendererError
from gateway.render import tinker
from gateway.render.tinker_messages import cookbook_messages, found_message, with_tools
from gateway.render.translator import Translator
from tests.render.doubles import PlainRenderer, PlainTokenizer


class CookbookDouble(ModuleType):
    """Stands for ``tinker_cookbook.renderers``: knows the renderers that it is given."""

    class RendererError(Exception):
        """The cookbook's own."""

    def __init__(self, **known):
        super().__init__("tinker_cookbook.renderers")
        self.known = known

    def get_renderer(self, name, tokenizer, image_processor, *, model_name):
        if name not in self.known:
            raise self.RendererError(f"Unknown renderer: {name}")
        return self.known[name]

    def is_renderer_registered(self, name):
        return name in self.known


class Ended:
    """A renderer of the double, that says how turns end."""

    def __init__(self, *stops):
        self.stops = stops

    def get_stop_sequences(self):
        return list(self.stops)


@pytest.fixture
def cookbook_double(monkeypatch):
    """A cookbook with the renderers that are named."""

    def installed(**known):
        package: Any = ModuleType("tinker_cookbook")
        package.renderers = CookbookDouble(**known)
        monkeypatch.setitem(sys.modules, "tinker_cookbook", package)
        monkeypatch.setitem(sys.modules, "tinker_cookbook.renderers", package.renderers)

    return installed


def made(name="own", tokenizer=None):
    return tinker.TinkerRenderer(name, tokenizer or PlainTokenizer(), model="a/model")


@pytest.mark.parametrize(
    ("model", "name"),
    [
        ("Qwen/Qwen3-8B", "qwen3"),
        ("meta-llama/Llama-3.1-8B-Instruct", "llama3"),
        ("thinkingmachines/Inkling-Tiny", "tml_v0"),
        ("moonshotai/Kimi-K2.7-Code", "kimi_k27_code"),
        ("google/gemma-4-31B-it", "gemma4"),
        ("deepseek-ai/DeepSeek-V4-Pro", "deepseek_v4"),
        ("deepseek-ai/DeepSeek-V4.1-Flash", "deepseekv4_1"),
        ("deepseek-ai/DeepSeek-V4.1", None),
        ("Qwen/Qwen3-8B-Instruct", None),
        ("/models/Qwen3-8B", None),
    ],
)
def test_a_model_has_the_renderer_of_the_list(model, name):
    """By its name, or by a beginning of it that a cookbook takes for a family's."""
    assert tinker.name_for(model) == name


def test_the_list_says_whose_names_they_are_and_of_which_version():
    """Fireworks' are not the cookbook's, and need another package."""
    assert {package: facts["version"] for package, facts in tinker.models().items()} == {
        "tinker_cookbook": "0.6.1",
        "fireworks": "76821fa",
    }
    assert tinker.is_fireworks("glm5")
    assert tinker.is_fireworks("kimi_k3")
    assert not tinker.is_fireworks("qwen3")


def test_a_cookbook_that_is_not_installed_is_absent(monkeypatch):
    """Which is no fault where something else serves as well."""
    monkeypatch.setitem(sys.modules, "tinker_cookbook", None)
    with pytest.raises(PackageAbsent, match="tinker-cookbook is not installed: pip install tinker-cookbook"):
        made()


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("import torch_that_is_not_there", "ModuleNotFoundError: No module named 'torch_that_is_not_there'"),
        ("raise OSError('libcudart')", "OSError: libcudart"),
    ],
)
def test_a_broken_cookbook_is_named_with_what_broke_it(tmp_path, monkeypatch, source, reason):
    """Whoever has installed it wants it used."""
    (tmp_path / "tinker_cookbook").mkdir()
    (tmp_path / "tinker_cookbook" / "__init__.py").touch()
    (tmp_path / "tinker_cookbook" / "renderers.py").write_text(source)
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(ConfigError, match=rf"tinker-cookbook is installed and cannot be imported \({reason}") as raised:
        made()
    assert not isinstance(raised.value, PackageAbsent)
    sys.modules.pop("tinker_cookbook", None)


def test_an_unknown_name_is_an_ill_setting(cookbook_double):
    """In the cookbook's words."""
    cookbook_double()
    with pytest.raises(ConfigError, match="--renderer-name own: Unknown renderer: own"):
        made()


def test_a_name_of_fireworks_needs_fireworks(cookbook_double, monkeypatch):
    """Only then is it looked for."""
    looked: list[str] = []
    monkeypatch.setattr("gateway.render.fireworks.register", looked.append)
    cookbook_double(glm5=Ended(7), own=Ended(7))
    made()
    assert looked == []
    made("glm5")
    assert looked == ["glm5"]
    with pytest.raises(ConfigError, match=r"registers no renderer 'kimi_k3' \(known of version 76821fa\)"):
        made("kimi_k3")


def test_a_text_of_one_token_is_its_id_and_a_longer_one_stays_a_text(cookbook_double):
    """Engines stop at both; a bridge needs an id."""
    cookbook_double(own=Ended("a", "ab", 7))
    renderer = made()
    assert (renderer.get_stop_token_ids(), renderer.stop_strings) == ([97, 7], ("ab",))


def test_a_turn_that_ends_in_letters_alone_also_ends_with_all_text(cookbook_double):
    """As engines have it anyway."""
    cookbook_double(own=Ended("ab"))
    ending: Any = PlainTokenizer()
    ending.eos_token_id = 3
    assert made(tokenizer=ending).get_stop_token_ids() == [3]
    with pytest.raises(RendererError, match="has no end of text"):
        made()


def test_the_texts_that_end_a_turn_are_looked_for_beside_the_clients_own():
    """Once each, and not under `ignore_eos`, which they would defeat."""
    renderer: Any = PlainRenderer()
    renderer.stop_strings = ("ab", "cd")
    translator = Translator(renderer, PlainTokenizer())
    assert translator.ended(Sampling(stop=("x", "ab"))).stop == ("x", "ab", "cd")
    ignoring = Sampling(stop=("x",), ignore_eos=True)
    assert translator.ended(ignoring) is ignoring
    assert Translator(PlainRenderer(), PlainTokenizer()).ended(ignoring) is ignoring


def test_results_are_named_after_their_calls():
    """A name that is given is kept, and one that nobody knows is left out."""
    call = {"id": "a", "type": "function", "function": {"name": "look", "arguments": {"é": 1}}}
    history: list[dict[str, Any]] = [
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "content": "1", "tool_call_id": "a"},
        {"role": "tool", "content": "2", "tool_call_id": "b"},
        {"role": "tool", "content": "3", "tool_call_id": "a", "name": "own"},
        {"role": "user", "content": "4", "tool_call_id": "a"},
    ]
    made = cookbook_messages(history, dict)
    assert [message.get("name") for message in made] == [None, "look", None, "own", None]
    assert made[0]["tool_calls"][0]["function"] == {"name": "look", "arguments": '{"é": 1}'}


@pytest.mark.parametrize("content", [[{"type": "image_url"}], [{"type": "text", "text": 5}], ["a"], {"text": "a"}, 5])
def test_parts_that_are_no_text_are_refused(content):
    """They would be dropped."""
    with pytest.raises(MultimodalUnsupported, match="takes text parts only"):
        cookbook_messages([{"role": "user", "content": content}], dict)


def test_a_renderer_that_takes_no_thoughts_is_given_none():
    """As a field or as a part: the templates of such models leave them out, too."""
    thought = {"type": "thinking", "thinking": "hm"}
    said: list[dict[str, Any]] = [
        {"role": "assistant", "content": "ok", "reasoning_content": "hm"},
        {"role": "assistant", "content": [thought, {"type": "text", "text": "ok"}]},
    ]
    taken = [message["content"] for message in cookbook_messages(said, dict)]
    assert taken == [[thought, {"type": "text", "text": "ok"}]] * 2
    left = [message["content"] for message in cookbook_messages(said, dict, takes_thoughts=False)]
    assert left == ["ok", "ok"]


def test_tools_take_the_place_of_a_system_message_in_front():
    """Which is handed to the renderer, to be written beside them."""
    seen = []

    def prefix(tools, system):
        seen.append(([*tools], system))
        if "description" not in tools[0]:
            raise KeyError("description")
        return [{"role": "system", "content": "tools"}]

    messages: list[dict[str, Any]] = [
        {"role": "system", "content": [{"type": "text", "text": "Be"}]},
        {"role": "user", "content": "hi"},
    ]
    tools: list[dict[str, Any]] = [{"type": "function", "function": {"name": "look"}}]
    assert [message["content"] for message in with_tools(messages, tools, prefix)] == ["tools", "hi"]
    assert [system for _, system in seen] == ["Be", "Be"]
    assert seen[1][0][0]["description"] == ""
    assert len(with_tools(messages[1:], tools, prefix)) == 2

    def knows_none(tools, system):
        raise NotImplementedError

    with pytest.raises(BadRequest, match="knows none"):
        with_tools(messages, tools, knows_none)


def test_pieces_of_text_stand_in_lines_of_their_own():
    """And thoughts apart."""
    parts = [
        {"type": "thinking", "thinking": "a"},
        {"type": "text", "text": "b\n"},
        {"type": "thinking", "thinking": "c"},
        {"type": "text", "text": " d"},
    ]
    found = found_message({"role": "assistant", "content": parts})
    assert (found.content, found.reasoning_content) == ("b\nd", "a\nc")
    assert found_message({"role": "assistant", "content": parts[1:2]}).content == "b\n"
