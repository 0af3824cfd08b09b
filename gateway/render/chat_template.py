"""The text that a tokenizer's chat template writes, of messages exactly as they are given."""

import inspect
from datetime import datetime
from typing import Any

from gateway.core.types import JsonObject
from gateway.errors import BadRequest
from gateway.render.protocol import MessageDicts

_CLOCK = (
    "{% macro strftime_now(format) %}{% set said = namespace(text=format) %}"
    "{% for directive, text in gateway_clock.items() %}{% set said.text = said.text | replace(directive, text) %}"
    "{% endfor %}{{ said.text }}{% endmacro %}{{ '' }}"
)
"""Takes the place of transformers' clock, in front of a template, to which no function can be given. The last part
keeps the line that follows."""
_DIRECTIVES = [f"%{flag}{letter}" for letter in "aAbBcdDeFGHIjklmMpRsSTuUVwWxXyYzZf" for flag in ("-", "")]
_NEVER_ARGUMENTS = {
    *("messages", "conversation", "conversations", "chat_template", "tools", "documents"),
    *("add_generation_prompt", "continue_final_message", "raise_exception", "strftime_now", "gateway_clock"),
    *("tokenize", "padding", "truncation", "max_length", "tokenizer_kwargs", "processor_kwargs"),
    *("return_dict", "return_tensors", "return_assistant_tokens_mask", "sanitize_control_tokens"),
}
"""What renders a template, and what there is in each: some transformers take fewer of them for their own."""


def check_template_kwargs(
    tokenizer: Any,  # a transformers tokenizer, or none that has templates
    template_kwargs: JsonObject,
) -> None:
    """Refuse what is no argument of a template, but of the function that renders it: another template, say.

    Raises:
        BadRequest: there is such an argument.
    """
    function = getattr(tokenizer, "apply_chat_template", None)
    own = _NEVER_ARGUMENTS | (inspect.signature(function).parameters.keys() if function else set())
    name = next((name for name in template_kwargs if name in own), None)
    if name is not None:
        raise BadRequest(
            f"chat_template_kwargs: {name} is no argument of the model's template, and not to be set here",
            param="chat_template_kwargs",
        )


def template_text(
    tokenizer: Any,  # a transformers tokenizer, which is none of the gateway's own contract
    messages: MessageDicts,
    *,
    tools: MessageDicts | None,
    opened: bool,
    template_kwargs: JsonObject,
    moment: datetime | None = None,
) -> str:
    """What ``apply_chat_template`` writes, to be encoded without special tokens.

    Since 5.24 that leaves out what is ``None`` before the template sees it, and there are templates that ask for it:
    DeepSeek-V3's writes calls only where the content is ``None``, and fails where there is none. So such messages are
    rendered a step further down, where they stay as they are.

    Templates may write what time it is. With a `moment`, it is that.

    Raises:
        Exception: whatever the template raises.
    """
    given = dict(template_kwargs)
    if moment is not None:
        given["gateway_clock"] = {directive: moment.strftime(directive) for directive in _DIRECTIVES}
    if all(value is not None for message in messages for value in message.values()):
        options = {"tools": tools, "add_generation_prompt": opened, "tokenize": False}
        if moment is not None:
            options["chat_template"] = _CLOCK + tokenizer.get_chat_template(tools=tools)
        text: str = tokenizer.apply_chat_template(messages, **options, **given)
        return text
    from transformers.utils.chat_template_utils import render_jinja_template

    template = ("" if moment is None else _CLOCK) + tokenizer.get_chat_template(tools=tools)
    given = {**tokenizer.special_tokens_map, **given}
    texts, _ = render_jinja_template(
        [messages], tools=tools, chat_template=template, add_generation_prompt=opened, **given
    )
    return str(texts[0])
