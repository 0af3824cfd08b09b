"""Which renderer serves a model, over the real Qwen3 tokenizer and PrimeIntellect's renderers."""

import shutil
from copy import copy
from typing import Any

import pytest

from gateway.core.types import Message, ToolCall
from gateway.errors import BadRequest, ConfigError
from gateway.render.options import NO_OPTIONS, Options
from gateway.render.registry import load_tokenizer, renderers_for
from tests.render.doubles import LetterRenderer, PlainRenderer, PlainTokenizer, read
from tests.render.hostile import THOUGHT, chatml

USER = Message("user", "q")


BRIDGELESS = Options(name="default")
"""PrimeIntellect's fallback, which renders by the template and never bridges."""


def resolved(tokenizer, spec="auto", *, retention="all", allow=False, injected=None, options=NO_OPTIONS):
    return renderers_for(spec, tokenizer, injected, retention=retention, bridgeless_ok=allow, options=options)


def answer(qwen, text):
    return qwen.encode(text, add_special_tokens=False)


def test_the_gateway_keeps_all_sampled_thinking_and_says_so(qwen):
    """Qwen3's own template would strip it at each user message, and so break every prefix."""
    renderers, notes = resolved(qwen)
    translator = renderers.get({})
    prompt = translator.render([USER], ())
    completion = answer(qwen, "<think>\nhm\n</think>\n\nyes<|im_end|>")
    bridged = translator.bridge(prompt, completion, [Message("user", "more")], (), [USER, Message("assistant", "yes")])

    assert translator.thinking_retention == "all"
    assert bridged is not None
    assert prompt + completion == bridged[: len(prompt + completion)]
    assert len(notes) == 1
    assert "'all'" in notes[0]
    assert "strips" in notes[0]


def test_under_the_models_own_retention_user_messages_are_not_bridged_but_tools_are(qwen):
    """Legal, and said at start."""
    renderers, notes = resolved(qwen, retention="template")
    translator = renderers.get({})
    prompt, completion = translator.render([USER], ()), answer(qwen, "ok<|im_end|>")

    assert translator.thinking_retention == "tool_cycle"
    history = [USER, Message("assistant", "ok")]
    assert translator.bridge(prompt, completion, [USER], (), history) is None
    assert translator.bridge(prompt, completion, [Message("tool", "out", tool_call_id="c")], (), history) is not None
    assert any("does not bridge user messages" in note for note in notes)


def test_template_arguments_make_a_renderer_of_their_own_once(qwen):
    """Equal arguments share it, however they are spelled."""
    renderers, _ = resolved(qwen)

    assert renderers.get({"enable_thinking": False}) is renderers.get({"enable_thinking": False})
    assert renderers.get({"enable_thinking": False}) is not renderers.get({})
    assert renderers.get({"enable_thinking": False}).render([USER], ())[-1] != renderers.get({}).render([USER], ())[-1]


def test_template_arguments_that_the_renderer_does_not_take_are_the_callers_fault(qwen):
    """Named, so that the caller can drop them."""
    renderers, _ = resolved(qwen)

    with pytest.raises(BadRequest, match="nonsense") as caught:
        renderers.get({"nonsense": 1})
    assert caught.value.param == "chat_template_kwargs"


def test_a_tool_call_is_parsed_from_the_sampled_ids(qwen):
    """With the real parser: reasoning, text, calls; broken ones as text."""
    renderers, _ = resolved(qwen)
    text = (
        '<think>\nhm\n</think>\n\nhey\n<tool_call>\n{"name": "f", "arguments": {"a": 1}}\n</tool_call>\n'
        '<tool_call>\n{"name": "f", "arguments": {"a": NaN}}\n</tool_call><|im_end|>'
    )
    parsed = read(renderers.get({}), answer(qwen, text), [], (), lambda: "call_x")

    assert parsed.flags == ("malformed_tool_call",)
    assert (ToolCall("call_x", "f", '{"a": 1}'),) == parsed.message.tool_calls
    assert parsed.message.reasoning == "hm"
    assert parsed.message.content.startswith('hey\n<tool_call>\n{"name": "f"')


@pytest.mark.parametrize("spec", ["auto", "prime"])
def test_a_model_whose_renderer_never_bridges_is_refused_with_the_remedy(named, spec):
    """The message names the model and three ways out."""
    with pytest.raises(ConfigError, match=r"--model-name.*--renderer.*--allow-bridgeless") as caught:
        resolved(named("my/finetune"), spec, options=BRIDGELESS)
    assert "my/finetune" in str(caught.value)


def test_a_renderer_that_bridges_answers_without_thoughts_alone_is_taken(named):
    """The template writes the thought of the last message only, so no answer that has one is ever extended."""
    tokenizer = named("thoughtful")
    tokenizer.chat_template = chatml(thought=f"{{% if loop.last %}}{THOUGHT}{{% endif %}}")

    renderers, _ = resolved(tokenizer, "template", retention="template")

    assert renderers.chosen.backend == "template"


def test_a_bridgeless_renderer_is_taken_only_when_allowed(named):
    """Then the template serves, and the operator is told what that means."""
    renderers, notes = resolved(named("my/finetune"), allow=True, options=BRIDGELESS)

    assert renderers.get({}).render([USER], ())
    assert any("never bridges" in note for note in notes)


def test_an_injected_renderer_comes_first_and_takes_no_template_arguments():
    """An object cannot be made anew for other arguments."""
    injected = PlainRenderer()
    renderers, notes = resolved(PlainTokenizer(), injected=injected)

    assert renderers.get({}).renderer is injected
    assert notes == []
    with pytest.raises(BadRequest, match="chat_template_kwargs"):
        renderers.get({"enable_thinking": True})


@pytest.mark.parametrize(
    "name", ["chat_template", "tools", "messages", "tokenize", "add_generation_prompt", "max_length"]
)
@pytest.mark.parametrize("spec", ["template", "prime"])
def test_no_template_argument_reaches_what_renders_the_template(named, spec, name):
    """Another template would run whatever a client wrote, for as long as it likes."""
    renderers, _ = resolved(
        named("my/finetune"), spec=spec, allow=True, options=BRIDGELESS if spec == "prime" else NO_OPTIONS
    )
    endless = "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}"

    with pytest.raises(BadRequest, match=f"{name} is no argument of the model's template") as caught:
        renderers.get({name: endless})
    assert caught.value.param == "chat_template_kwargs"


def test_an_injected_renderer_that_never_bridges_is_refused():
    """Naming the model and the remedy; allowed, it is said."""
    with pytest.raises(ConfigError, match=r"'plain' has no renderer that can bridge.*--allow-bridgeless"):
        resolved(PlainTokenizer(), injected=PlainRenderer(bridges=False))
    assert resolved(PlainTokenizer(), injected=PlainRenderer(bridges=False), allow=True)[1]


def test_a_factory_is_found_by_module_and_name():
    """``--renderer module:factory``."""
    renderers, _ = resolved(PlainTokenizer(), "tests.render.doubles:plain_factory")

    assert isinstance(renderers.get({}).renderer, PlainRenderer)


@pytest.mark.parametrize(
    "spec",
    [
        "no.such.module:f",
        ":f",
        "tests.render.doubles:missing",
        "tests.render.doubles:empty_factory",
        "tests.render.doubles:failing_factory",
        "tests.render.doubles:endless_factory",
        "tests.render.doubles:MODULE_NAME",
        "nonsense",
    ],
)
def test_a_renderer_that_cannot_be_had_stops_the_start(spec):
    """One line that names the setting."""
    with pytest.raises(ConfigError, match="--renderer"):
        resolved(PlainTokenizer(), spec)


def test_a_tokenizer_that_cannot_be_loaded_stops_the_start(tmp_path):
    """One line that names the setting and the path."""
    with pytest.raises(ConfigError, match=r"--model .*no tokenizer"):
        load_tokenizer(str(tmp_path), "x")


def test_a_model_whose_renderer_does_not_fit_the_tokenizer_stops_the_start(named):
    """The name promises tokens that the tokenizer does not have."""
    with pytest.raises(
        ConfigError, match=r"--renderer prime \(kimi-k2\) does not work for 'moonshotai/Kimi-K2-Instruct'"
    ):
        resolved(named("moonshotai/Kimi-K2-Instruct"))


def test_a_folder_without_a_vocabulary_is_no_tokenizer(tokenizer_folder, tmp_path):
    """What loads all the same would turn every text into nonsense."""
    shutil.copy(f"{tokenizer_folder}/tokenizer_config.json", tmp_path)

    with pytest.raises(ConfigError, match="--model"):
        load_tokenizer(str(tmp_path), "Qwen/Qwen3-8B")


def test_a_damaged_tokenizer_stops_the_start(tokenizer_folder, tmp_path):
    """One line that names the setting."""
    shutil.copy(f"{tokenizer_folder}/tokenizer_config.json", tmp_path)
    (tmp_path / "tokenizer.json").write_text('{"version": ')

    with pytest.raises(ConfigError, match="--model"):
        load_tokenizer(str(tmp_path), "Qwen/Qwen3-8B")


def test_an_ill_template_argument_is_named(qwen):
    """With what is wrong with it."""
    renderers, _ = resolved(qwen)

    with pytest.raises(BadRequest, match="enable_thinking"):
        renderers.get({"enable_thinking": [1]})


@pytest.mark.parametrize(
    ("form", "says"),
    [(".*", "the model's own"), ("[A-Za-z0-9]{9}", "nine letters and digits"), ("call_0", "no history")],
)
def test_what_the_template_does_with_tool_call_ids_is_learnt_and_said_at_start(form, says):
    """In one note that names the model; the default, in which no prompt depends on them, needs none."""
    _, (note,) = resolved(PlainTokenizer(), injected=LetterRenderer(form))

    assert "'plain'" in note
    assert says in note


def test_every_set_of_template_arguments_is_asked_about_tool_call_ids(qwen):
    """They may choose another template."""
    renderers, _ = resolved(qwen)

    assert renderers.get({}).call_ids == "hidden"
    assert renderers.get({"enable_thinking": False}).call_ids == "hidden"


def test_a_renderer_object_and_a_backend_by_name_are_one_too_many():
    """One of them would be passed over."""
    with pytest.raises(ConfigError, match="--renderer prime: a renderer object was given"):
        resolved(PlainTokenizer(), "prime", injected=PlainRenderer())


def test_a_renderer_that_says_it_takes_no_tools_is_given_none(named):
    """Its own word, as the package's renderers give it; the operator is told at start."""
    injected: Any = PlainRenderer()
    injected.supports_tools = False
    renderers, (note,) = resolved(PlainTokenizer(), injected=injected)

    assert "requests with tools are refused" in note
    with pytest.raises(BadRequest, match="--renderer") as refused:
        renderers.get({}).render([USER], ({"type": "function"},))
    assert refused.value.param == "tools"


@pytest.mark.parametrize(("form", "warned"), [("llama-json", True), ("hermes", False), ("qwen3", False)])
def test_a_tool_format_that_is_not_what_the_template_writes_is_told(qwen, form, warned):
    """It is taken all the same: whoever says it may know better."""
    renderers, notes = resolved(qwen, "template", options=Options(tool_format=form))

    assert renderers.get({}).reads == f"{form}: --tool-format says so"
    assert any(f"--tool-format {form}: the template of" in note and "hermes" in note for note in notes) is warned


def test_a_renderer_that_does_not_work_says_why_once_and_what_to_do(named):
    """The cause is told where the error does not tell it already."""
    with pytest.raises(ConfigError) as refused:
        resolved(named("moonshotai/Kimi-K2-Instruct"))
    said = str(refused.value)
    cause: Any = refused.value.__cause__
    why = str(cause.__cause__).partition("\n")[0]

    assert said.count(why) == 1
    assert said.endswith("choose another with --renderer")


@pytest.mark.parametrize("demand", ["{{ tools | length }}", "{{ [][9].role }}"])
def test_a_template_that_demands_more_than_any_history_has_stops_the_start(qwen, demand):
    """With what it says, and what to do."""
    demanding = copy(qwen)
    demanding.chat_template = demand + qwen.chat_template
    with pytest.raises(ConfigError, match=r"--renderer template .* does not work for .*--renderer$"):
        resolved(demanding, "template", options=Options(tool_format="hermes"))


class Refusing(PlainRenderer):
    """Takes nothing that it is asked for."""

    def render_ids(self, messages, *, tools=None, add_generation_prompt=False):
        raise BadRequest("roles must alternate", param="messages")


def test_what_a_renderer_refuses_at_start_is_a_fault_of_the_configuration():
    """There is no client yet whose fault it could be."""
    with pytest.raises(ConfigError, match=r"--renderer own \(Refusing\) does not work .*: roles must alternate"):
        resolved(PlainTokenizer(), injected=Refusing())
