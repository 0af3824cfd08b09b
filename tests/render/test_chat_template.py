"""Templates are given messages as they are."""

from datetime import datetime

from gateway.render.chat_template import template_text
from gateway.render.protocol import MessageDicts
from tests.render import families

TOLD = "{{ bos_token }}{% for m in messages %}[{{ m.content is none }}{{ m.content is defined }}]{% endfor %}{{ tools }}{{ x }}"


def written(messages, **kwargs):
    tokenizer = families.told("qwen3", chat_template=TOLD, bos_token="<s>")
    text = template_text(tokenizer, messages, tools=None, opened=True, template_kwargs=kwargs)
    return text, tokenizer


def test_what_is_none_stays_none():
    """Transformers would leave it out; variables and special tokens are there all the same."""
    assert written([{"role": "user", "content": None}, {"role": "user"}], x=5)[0] == "<s>[TrueTrue][FalseFalse]None5"


def test_other_messages_are_rendered_by_the_tokenizer_itself():
    """So what it does beside is done."""
    messages = [{"role": "user", "content": "a"}]
    text, tokenizer = written(messages, x=5)
    assert text == tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True, x=5)


def test_a_template_s_clock_can_be_set():
    """It writes any format as transformers' does, at the moment that is given."""
    said = "%Y-%m-%d %H:%M:%S.%f|%-d %B %y|%j %a %A %b %p %I|%d %b %Y|%D %T|%c %x %X|plain"
    tokenizer = families.told("qwen3", chat_template=f"{{{{ strftime_now('{said}') }}}}\n{{% if 1 %}}\nx{{% endif %}}")
    for content in ("a", None):
        for moment in (datetime(2001, 2, 3, 4, 5, 6), datetime(2094, 11, 28, 21, 47, 58, 999)):  # noqa: DTZ001  # as templates' clock
            messages: MessageDicts = [{"role": "user", "content": content}]
            text = template_text(tokenizer, messages, tools=None, opened=True, template_kwargs={}, moment=moment)
            assert text == f"{moment.strftime(said)}\nx"
