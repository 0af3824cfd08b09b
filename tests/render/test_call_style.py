"""In which style templates take calls."""

import json

import pytest

from gateway.core.types import Message, ToolCall
from gateway.render.call_style import CallStyle
from gateway.render.chat_template import template_text
from gateway.render.translator import Translator
from tests.render import families
from tests.render.call_templates import Pair
from tests.render.doubles import LetterRenderer, PlainRenderer, PlainTokenizer

WHOLE = (
    "{% for m in messages %}{{ m.role }}{{ m.content }}{% for c in m.tool_calls or [] %}CALL{% endfor %}{% endfor %}"
)
JOINED = WHOLE.replace("CALL", "{{ c.function.name + ' ' + c.function.arguments }}")
DUMPED = WHOLE.replace("CALL", "{{ c.function.arguments | tojson }}")
EITHER = WHOLE.replace(
    "CALL", "{{ c.function.arguments if c.function.arguments is string else c.function.arguments | tojson }}"
)
WALKED = WHOLE.replace("CALL", "{% for k, v in c.function.arguments.items() %}{{ k }}={{ v }}{% endfor %}")
PASSED_OVER = WHOLE.replace(
    "CALL", "{% if c.function.arguments is mapping %}{{ c.function.arguments | tojson }}{% endif %}"
)
NONE_ONLY = """{% for m in messages %}{% if m.content is none %}{% for c in m.tool_calls %}{{ c.function.arguments }}
{%- endfor %}{% else %}{{ m.content + '' }}{% endif %}{% endfor %}"""
NO_CALLS = "{% for m in messages %}{{ m.content }}{% endfor %}"
REFUSED = "{% for m in messages %}{% if m.role == 'tool' %}{{ raise_exception('no tools') }}{% endif %}{% endfor %}"


class TemplateWriter(PlainRenderer):
    """Renders by a template, with nothing of its own."""

    def __init__(self, template):
        super().__init__()
        self.tokenizer = families.told("qwen3", chat_template=template)

    def render_ids(self, messages, *, tools=None, add_generation_prompt=False):
        self.seen.append(messages)
        text = template_text(self.tokenizer, messages, tools=tools, opened=add_generation_prompt, template_kwargs={})
        return self.tokenizer.encode(text, add_special_tokens=False)


@pytest.mark.parametrize(
    ("template", "style"),
    [
        (JOINED, CallStyle()),
        (EITHER, CallStyle()),
        (DUMPED, CallStyle(objects=True)),
        (WALKED, CallStyle(objects=True)),
        (PASSED_OVER, CallStyle(objects=True)),
        (NONE_ONLY, CallStyle(None)),
        (NONE_ONLY.replace("arguments }}", "arguments | tojson }}"), CallStyle(None, objects=True)),
        (NO_CALLS, CallStyle()),
        (REFUSED, CallStyle()),
    ],
)
def test_the_style_is_the_first_in_which_a_call_is_written(template, style):
    """Text joined, quoted, gone through or passed over; content that must be none; and no calls at all."""
    renderer = TemplateWriter(template)
    translator = Translator(renderer, renderer.tokenizer).learn()
    assert translator.call_style == style

    if template in (NO_CALLS, REFUSED):
        return
    call = ToolCall("call_1", "f", '{"é": [1, "x"]}')
    translator.render([Message("user", "u"), Message("assistant", "", tool_calls=(call,))], ())
    given = renderer.seen[-1][1]
    assert given["content"] == style.no_content
    assert given["tool_calls"][0]["function"]["arguments"] == (
        json.loads(call.arguments) if style.objects else call.arguments
    )


def test_any_backend_is_tried():
    """By the ids that it renders and their text."""
    assert Translator(LetterRenderer(), PlainTokenizer()).learn().call_style == CallStyle()
    assert Translator(PlainRenderer(), PlainTokenizer()).learn().call_style == CallStyle()


def test_text_is_given_as_it_is():
    """What stands for none is for answers that are calls alone."""
    style = CallStyle(None, objects=True)
    assert [style.content(text, has_calls=calls) for text, calls in (("a", True), ("", True), ("", False))] == [
        "a",
        None,
        "",
    ]


@pytest.mark.parametrize(
    ("text", "given"), [("", {}), ('{"a": 1}', {"a": 1}), ("[1]", "[1]"), ("{", "{"), ("[" * 100_000, "[" * 100_000)]
)
def test_arguments_that_are_no_object_stay_text(text, given):
    """A client may send any; whether the template takes them is for it to say."""
    assert CallStyle(objects=True).arguments(text) == given
    assert CallStyle().arguments(text) == (text or "{}")


def test_the_real_deepseek_v3_is_given_none(deepseek):
    """Else the call of an answer would stand in no prompt; there it is only where content is none."""
    pair = Pair(deepseek, "<｜end▁of▁sentence｜>", "<｜Assistant｜>")
    assert pair.translator.call_style == CallStyle(None)
