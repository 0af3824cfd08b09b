"""Tokenizers of the families whose own cannot be had offline: bytes, some longer tokens, and the markers as theirs are.

And what models write in each format: whole answers and fragments, sound and broken.
"""

from collections.abc import Iterator
from copy import copy
from dataclasses import replace
from functools import cache
from typing import Any, cast

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from gateway.render.formats import CALL_FORMATS, DEMO, FORMATS, Format, Mark
from gateway.render.markers import Markers
from gateway.render.protocol import Tokenizer as GatewayTokenizer

STOP = "<|stop|>"
_CHATML = ["<|im_start|>", "<think>", "</think>", "<tool_call>", "</tool_call>"]
_SECTIONS = ["calls▁begin", "calls▁end", "call▁begin", "call▁end", "sep", "outputs▁begin", "outputs▁end"]
_KIMI = ["s_section_begin", "s_section_end", "_begin", "_argument_begin", "_end"]
CONTROL = {
    "demo": _CHATML,
    "qwen3": _CHATML,
    "qwen3.5": _CHATML,
    "qwen3.6": _CHATML,
    "deepseek-v3": ["<｜Assistant｜>", *(f"<｜tool▁{name}｜>" for name in _SECTIONS)],
    "deepseek-r1": ["<｜Assistant｜>", "<think>", "</think>", *(f"<｜tool▁{name}｜>" for name in _SECTIONS)],
    "deepseek-v4": ["<｜Assistant｜>", "<think>", "</think>", "｜DSML｜"],
    "glm-4.5": ["<|assistant|>", *_CHATML[1:], "<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>"],
    "kimi-k2": ["<|im_assistant|>", "<|im_middle|>", *(f"<|tool_call{name}|>" for name in _KIMI)],
    "minimax-m2": ["]~b]", "<think>", "</think>", "<minimax:tool_call>", "</minimax:tool_call>"],
    "llama-3": ["<|start_header_id|>", "<|end_header_id|>", "<|python_tag|>"],
    "mistral": ["<|assistant|>", "[TOOL_CALLS]", "[ARGS]", "[CALL_ID]"],
    "granite": ["<|assistant|>", "<|tool_call|>"],
    "phi-4": ["<|assistant|>", "<|tool_call|>", "<|/tool_call|>"],
    "jamba": ["<|assistant|>"],
    "seed-xml": ["<|assistant|>", "<seed:tool_call>", "</seed:tool_call>"],
    "deepseek-json": ["<|assistant|>", *(f"<｜tool▁{name}｜>" for name in _SECTIONS)],
}
"""DeepSeek-V3 has no tokens for thoughts, R1 has; V4 has one in the middle of its markers."""


def hermes(name: str, arguments: str) -> str:
    return f'<tool_call>\n{{"name": "{name}", "arguments": {arguments}}}\n</tool_call>'


def xml(name: str, **parameters: str) -> str:
    given = "".join(f"<parameter={key}>\n{value}\n</parameter>\n" for key, value in parameters.items())
    return f"<tool_call>\n<function={name}>\n{given}</function>\n</tool_call>"


def fenced(name: str, arguments: str) -> str:
    return f"<｜tool▁call▁begin｜>function<｜tool▁sep｜>{name}\n```json\n{arguments}\n```<｜tool▁call▁end｜>"


def section(*calls: str) -> str:
    return f"<｜tool▁calls▁begin｜>{''.join(calls)}<｜tool▁calls▁end｜>"


def dsml(name: str, **parameters: str) -> str:
    """Values as they stand behind ``string=``."""
    given = "\n".join(
        f'<｜DSML｜parameter name="{key}" string={value}</｜DSML｜parameter>' for key, value in parameters.items()
    )
    return f'<｜DSML｜invoke name="{name}">\n{given}\n</｜DSML｜invoke>'


def dsml_section(*calls: str) -> str:
    lines = "\n".join(calls)
    return f"<｜DSML｜tool_calls>\n{lines}\n</｜DSML｜tool_calls>"


def keyed(name: str, **parameters: str) -> str:
    given = "".join(f"<arg_key>{key}</arg_key>\n<arg_value>{value}</arg_value>\n" for key, value in parameters.items())
    return f"<tool_call>{name}\n{given}</tool_call>"


def numbered(name: str, arguments: str, number: int = 0) -> str:
    head = f"<|tool_call_begin|>functions.{name}:{number}<|tool_call_argument_begin|>"
    return f"{head}{arguments}<|tool_call_end|>"


def numbered_section(*calls: str) -> str:
    return f"<|tool_calls_section_begin|>{''.join(calls)}<|tool_calls_section_end|>"


def invoked(name: str, **parameters: str) -> str:
    given = "".join(f'<parameter name="{key}">{value}</parameter>\n' for key, value in parameters.items())
    return f'<invoke name="{name}">\n{given}</invoke>'


def invoked_section(*calls: str) -> str:
    lines = "\n".join(calls)
    return f"<minimax:tool_call>\n{lines}\n</minimax:tool_call>"


def parameters(name: str, arguments: str) -> str:
    return f'{{"name": "{name}", "parameters": {arguments}}}'


def array(*calls: tuple[str, str]) -> str:
    inner = ", ".join(f'{{"name": "{name}", "arguments": {arguments}}}' for name, arguments in calls)
    return f"[{inner}]"


def separated(name: str, arguments: str) -> str:
    return f"<｜tool▁call▁begin｜>{name}<｜tool▁sep｜>{arguments}<｜tool▁call▁end｜>"


_HERMES = [
    hermes("f", '{"a": "é <b>", "n": [1, 2.5]}'),
    hermes("f", "null"),
    hermes("f", '{"a": NaN}'),
    hermes("", "{}"),
    "<tool_call>not json</tool_call>",
    '<tool_call>{"name": "g"}</tool_call>',
]
_XML = [
    xml("f", a="1", code="def f():\n    pass"),
    xml("f", a="x"),
    xml("g"),
    "<tool_call><function=f></tool_call>",
    "<tool_call>\n<function=f>\n<parameter=a>\n1",
    "</parameter>",
]
_FENCED = [
    section(fenced("f", '{"a": 1}')),
    section(fenced("f", "{}"), fenced("g", "[]")),
    fenced("f", '{"a": "é"}'),
    "<｜tool▁calls▁begin｜>",
    "<｜tool▁calls▁end｜>",
    "<｜tool▁call▁begin｜>function",
    "<｜tool▁call▁end｜>",
    "<｜tool▁sep｜>",
]
_DSML = [
    dsml_section(dsml("f", a='"true">é ', n='"false">[1]')),
    dsml_section(dsml("f"), dsml("g", n='"false">x')),
    dsml("f", a='"true">1'),
    "<｜DSML｜tool_calls>\n",
    "\n</｜DSML｜tool_calls>",
    "<｜DSML｜invoke",
    "</｜DSML｜invoke>",
    "<｜DSML｜",
]
_KEYED = [keyed("f", a="é <b>", n="[1]"), keyed("g"), keyed("f x", a="1"), "<arg_key>", "</arg_key>", "<arg_value>x"]
_NUMBERED = [
    numbered_section(numbered("f", '{"a": "é"}'), numbered("g", "{}", 1)),
    numbered("f", "null"),
    *("<|tool_calls_section_begin|>", "<|tool_calls_section_end|>", "<|tool_call_begin|>f", "<|tool_call_end|>"),
    "<|tool_call_argument_begin|>",
]
_INVOKED = [
    invoked_section(invoked("f", a="é ", n="[1]"), invoked("g")),
    invoked("f", a="1"),
    *("<minimax:tool_call>", "</minimax:tool_call>", "<invoke", "</invoke>", '<parameter name="a">'),
]
_LLAMA = [
    parameters("f", '{"a": "é"}'),
    f"{parameters('f', '{}')}; {parameters('g', '{}')}",
    parameters("f", "null"),
    *('{"a": 1}', "<|python_tag|>", "<|python_tag|>print(1)", "; ", "}"),
]
_MISTRAL = [
    f"[TOOL_CALLS]{array(('f', '{}'), ('g', '{}'))}",
    '[TOOL_CALLS]f[ARGS]{"a": "é"}',
    "[TOOL_CALLS]f[CALL_ID]abcdefghi[ARGS]{}",
    "[TOOL_CALLS]f{}",
    *("[TOOL_CALLS]", "[TOOL_", "[ARGS]", "[CALL_ID]", "[TOOL_CALLS]f x"),
]
_ARRAY = [array(("f", '{"a": "é"}')), array(("f", "{}"), ("g", "{}")), array(("f", "[]")), "[]", "["]
CALLS = {
    "glm-4.5": [*_KEYED, "<tool_call>", "</tool_call>"],
    "kimi-k2": _NUMBERED,
    "minimax-m2": _INVOKED,
    "llama-3": _LLAMA,
    "mistral": _MISTRAL,
    "granite": [*_ARRAY, "<|tool_call|>", *(f"<|tool_call|>{text}" for text in _ARRAY)],
    "phi-4": [*_ARRAY, "<|tool_call|>", *(f"<|tool_call|>{text}<|/tool_call|>" for text in _ARRAY)],
    "jamba": [*_ARRAY, "<tool_calls>", *(f"<tool_calls>{text}</tool_calls>" for text in _ARRAY)],
    "seed-xml": [text.replace("tool_call>", "seed:tool_call>") for text in _XML],
    "deepseek-json": [section(separated("f", '{"a": "é"}'), separated("g", "[]")), *_FENCED[3:]],
    **{name: [*_HERMES, "<tool_call>", "</tool_call>"] for name in ("demo", "qwen3")},
    **{name: [*_XML, "<tool_call>", "</tool_call>"] for name in ("qwen3.5", "qwen3.6")},
    **dict.fromkeys(("deepseek-v3", "deepseek-r1"), _FENCED),
    "deepseek-v4": _DSML,
}
TEXTS = [
    *(
        "a",
        " word",
        ".",
        "\n",
        "\n\n",
        "  ",
        "\t",
        "\u00a0",
        "漢字",
        "👩‍👩‍👧",
        "é",
        "<",
        "</",
        "<t",
        "{",
        '"',
        "\\ud800",
    ),
    *("<think>", "</think>", "<think>\nhm\n</think>\n\n", "<|im_start|>", "\n<tool", "_call>", "<｜tool"),
]


@cache
def small(name: str) -> GatewayTokenizer:
    """A tokenizer with the markers of a family."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    words = trainers.BpeTrainer(
        vocab_size=400, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False
    )
    tokenizer.train_from_iterator([*_texts(name)] * 2, words)
    tokenizer.add_special_tokens([STOP, *CONTROL[name]])
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, clean_up_tokenization_spaces=False)
    return cast(GatewayTokenizer, fast)


def told(name: str, **attributes: object) -> Any:  # transformers' own, with all that it has
    """Such a tokenizer with a template, or whatever else comes with real ones."""
    tokenizer = copy(small(name))
    for attribute, value in attributes.items():
        setattr(tokenizer, attribute, value)
    return tokenizer


def _texts(name: str) -> Iterator[str]:
    """With markers in letters, so that some tokens are pieces of them."""
    yield from TEXTS
    yield from CALLS[name]


def form(name: str) -> Format:
    """A format; one of calls alone with a header and with thoughts in letters, as others have them."""
    if name in CALL_FORMATS:
        thought = {"<think>": Mark.THINK, "</think>": Mark.THINK_END}
        calls = CALL_FORMATS[name]
        return replace(calls, headers=("<|assistant|>",), texts={**calls.texts, **thought})
    return DEMO if name == "demo" else FORMATS[name]


@cache
def markers(name: str) -> Markers:
    tokenizer = small(name)
    return Markers(form(name), tokenizer, tokenizer.encode(STOP))
