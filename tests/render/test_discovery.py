"""How answers are read of a model of which there is a tokenizer with a template and nothing else."""

from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.core.types import Message
from gateway.errors import BadRequest, ConfigError
from gateway.render.discovery import TOOL_FORMATS, AnswerReader, answer_format
from gateway.render.formats import CALL_FORMATS
from gateway.render.translator import Translator
from tests.render import call_templates, families
from tests.render.call_templates import TEMPLATES, TOOL, Pair
from tests.render.doubles import PlainRenderer


def with_template(family, template):
    return families.told(family, chat_template=template)


@cache
def known(name):
    return with_template(*TEMPLATES[name])


@pytest.mark.parametrize("name", TEMPLATES)
def test_the_format_is_found_by_what_the_template_writes_for_a_call(name):
    """Each of those that are known, and no other one that comes before it."""
    found = answer_format(known(name), None, {})
    assert (found.name, found.takes_tools) == (name, True)
    assert found.form is not None
    assert found.form.headers == ("<|assistant|>",)


def test_every_format_is_tried():
    """None is known in name only."""
    assert TEMPLATES.keys() == CALL_FORMATS.keys()


def test_one_format_may_be_written_in_several_ways():
    """Mistral's newer models and old ones, Llama's calls with a tag and without."""
    assert answer_format(with_template("mistral", call_templates.MISTRAL_NEW), None, {}).name == "mistral"
    assert answer_format(with_template("llama-3", call_templates.PYTHON_TAG), None, {}).name == "llama-json"


@pytest.mark.parametrize(
    ("template", "why"),
    [
        (call_templates.NO_CALLS, "writes none"),
        (call_templates.UNKNOWN, "no way that is known"),
        (None, "no chat template"),
    ],
)
def test_where_no_format_is_found_answers_are_text_only_and_tools_refused(template, why):
    """By a renderer's translator, before anything is rendered, naming what to do."""
    answers = answer_format(with_template("jamba", template), None, {})
    assert (answers.name, answers.takes_tools) == ("text only", False)
    assert why in answers.why

    renderer = PlainRenderer()
    renderer.answers = answers  # type: ignore[attr-defined]  # as a renderer may have it
    translator = Translator(renderer, families.small("jamba")).learn()
    user = [Message("user", "hi")]
    for ask in (lambda: translator.render(user, (TOOL,)), lambda: translator.bridge([1], [0], user, (TOOL,), user)):
        with pytest.raises(BadRequest, match="--tool-format and one of hermes, qwen-xml") as caught:
            ask()
        assert caught.value.param == "tools"
    assert translator.render(user, ()) == [1]


def test_text_only_answers_are_read_with_their_thoughts():
    """And whatever looks like a call is text."""
    reader = AnswerReader(answer_format(with_template("qwen3", call_templates.NO_CALLS), None, {}), [0])
    text = "<think>hm</think>\n<tool_call>{}</tool_call>"
    said = reader.read(families.small("qwen3").encode(text))
    assert (said.content, said.reasoning_content, said.flags) == ("<tool_call>{}</tool_call>", "hm", ())


def test_a_template_that_wraps_answers_in_something_unknown_is_no_way_to_serve_a_model():
    """Its clients would be given the markers."""
    with pytest.raises(ConfigError, match=r"wraps answers.*--renderer prime"):
        answer_format(with_template("jamba", call_templates.WRAPPED), None, {})


def test_what_closes_an_answer_must_be_no_text_either():
    """A stop id is none."""
    said = "{% if m.role == 'assistant' %}<answer>{{ m.content }}</answer>{% else %}{{ m.content }}{% endif %}"
    template = (
        f"{{% for m in messages %}}<|im_start|>{said}<|stop|>\n{{% endfor %}}"
        "{% if add_generation_prompt %}<|im_start|><answer>{% endif %}"
    )
    with pytest.raises(ConfigError, match="wraps answers"):
        answer_format(with_template("qwen3", template), None, {})
    unwrapped = template.replace("</answer>", "").replace("<answer>", "")
    assert answer_format(with_template("qwen3", unwrapped), None, {}).name == "text only"


@pytest.mark.parametrize("name", ["hermes", "qwen3"])
def test_a_format_can_be_named(name):
    """One of ours or of prime's; with the headers that the template shows, and the thoughts of the vocabulary."""
    answers = answer_format(with_template("qwen3", call_templates.UNKNOWN), name, {})
    assert answers.name == name
    assert answers.form is not None
    assert answers.form.read_call is TOOL_FORMATS[name].read_call
    assert answers.form.headers == ("<|assistant|>",)
    assert "<think>" in answers.form.texts


def test_without_a_template_a_named_format_keeps_the_headers_of_its_family():
    """They are all that is known."""
    answers = answer_format(with_template("qwen3", None), "qwen3", {})
    assert answers.form is not None
    assert answers.form.headers == TOOL_FORMATS["qwen3"].headers


@pytest.mark.parametrize(
    ("name", "complaint"), [("hermez", "must be one of hermes"), ("kimi", r"has no <\|tool_calls_section_begin\|>")]
)
def test_a_format_that_cannot_be_is_refused_at_start(name, complaint):
    """By what is wrong with it."""
    with pytest.raises(ConfigError, match=complaint):
        answer_format(families.small("qwen3"), name, {})


@pytest.mark.parametrize("opening", ["<think>\n", "<think>\n\n</think>\n\n", ""])
def test_a_thought_that_the_prompt_opens_is_no_part_of_the_header(opening):
    """Else nobody would know that it is open; a word of thoughts elsewhere is none."""
    template = TEMPLATES["hermes"][1].replace("{{ '<|assistant|>' }}", f"{{{{ '<|assistant|>{opening}' }}}}")
    tokenizer = with_template("qwen3", "{{ 'Use <think>.' }}" + template)
    found = answer_format(tokenizer, None, {})
    assert (found.name, found.form and found.form.headers) == ("hermes", ("<|assistant|>",))


def test_a_template_may_write_no_more_of_a_thought_than_its_end():
    """As those of newer GLM do, whose prompts open it."""
    template = TEMPLATES["glm"][1].replace("'<|assistant|>' + ", "'<|assistant|></think>' + ")
    template = template.replace("{{ '<|assistant|>' }}", "{{ '<|assistant|><think>' }}")
    assert answer_format(with_template("glm-4.5", template), None, {}).name == "glm"


def test_a_head_that_changes_with_the_history_is_no_part_of_an_answer():
    """As of a template that counts messages."""
    template = "{{ messages | length }} messages" + TEMPLATES["hermes"][1]
    assert answer_format(with_template("qwen3", template), None, {}).name == "hermes"


def test_without_an_opening_of_its_own_an_answer_begins_behind_the_last_control_token():
    """As in Mistral's prompts, behind questions and behind results."""
    template = call_templates.MISTRAL_NEW.replace("{%- if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}", "")
    template = template.replace("'<|assistant|>' + ", "").replace(
        "m.content }}{% endif", "m.content + '[ARGS]' }}{% endif"
    )
    template = template.replace("'<|tool|>' + m.content", "m.content + '[CALL_ID]'")
    found = answer_format(with_template("mistral", template), None, {})
    assert (found.name, found.form and found.form.headers) == ("mistral", ("[ARGS]", "[CALL_ID]"))


def test_the_real_qwen3_is_read_as_its_family(qwen):
    """With the thought that the prompt closes when thinking is off."""
    found = answer_format(qwen, None, {})
    assert (found.name, found.form and found.form.headers) == ("hermes", ("<|im_start|>assistant\n",))
    off = answer_format(qwen, None, {"enable_thinking": False})
    assert off.form == found.form


def test_the_real_deepseek_v3_is_read_as_its_family(deepseek):
    """Behind a tool's result its prompts have another header."""
    found = answer_format(deepseek, None, {})
    assert found.name == "deepseek-fenced"
    assert found.form is not None
    assert found.form.headers == ("<｜Assistant｜>", "<｜tool▁outputs▁end｜>")


words = st.text("abc é漢.,:;!-_\n", max_size=8).map(str.strip)
values = words | st.integers(-5, 5) | st.booleans() | st.lists(st.integers(0, 3), max_size=2)
arguments = st.fixed_dictionaries({}, optional={"t": words, "u": values, "v": values})
several = st.lists(arguments, max_size=3)


@cache
def pair(name):
    return Pair(known(name), families.STOP, "<|assistant|>")


@pytest.fixture(scope="session")
def qwen_pair(qwen):
    return Pair(qwen, "<|im_end|>", "<|im_start|>assistant\n")


@pytest.fixture(scope="session")
def deepseek_pair(deepseek):
    return Pair(deepseek, "<｜end▁of▁sentence｜>", "<｜Assistant｜>")


@given(st.sampled_from(sorted(TEMPLATES)), words, several)
def test_what_a_template_writes_is_read_back(name, content, calls):
    """Text and calls, in every format; Llama's call is all of an answer."""
    pair(name).reads_what_it_writes("" if name == "llama-json" and calls else content, calls)


@given(words, several)
def test_what_the_template_of_qwen3_writes_is_read_back(qwen_pair, content, calls):
    """By its real tokenizer."""
    qwen_pair.reads_what_it_writes(content, calls)


@given(words, several)
def test_what_the_template_of_deepseek_v3_writes_is_read_back(deepseek_pair, content, calls):
    """Text or calls: it leaves out the calls of an answer that has both, and ends the turn behind the second call."""
    deepseek_pair.reads_what_it_writes("" if calls else content, calls[:2])
