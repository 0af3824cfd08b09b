"""Tokenizers of the families whose own cannot be had offline: bytes, some longer tokens, and the markers as theirs are.

And what models write in each format: whole answers and fragments, sound and broken.
"""

from collections.abc import Iterator
from functools import cache
from typing import cast

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from gateway.render.formats import DEMO, FORMATS
from gateway.render.markers import Markers
from gateway.render.protocol import Tokenizer as GatewayTokenizer

STOP = "<|stop|>"
_CHATML = ["<|im_start|>", "<think>", "</think>", "<tool_call>", "</tool_call>"]
_SECTIONS = ["calls▁begin", "calls▁end", "call▁begin", "call▁end", "sep", "outputs▁begin", "outputs▁end"]
CONTROL = {
    "demo": _CHATML,
    "qwen3": _CHATML,
    "qwen3.5": _CHATML,
    "qwen3.6": _CHATML,
    "deepseek-v3": ["<｜Assistant｜>", *(f"<｜tool▁{name}｜>" for name in _SECTIONS)],
    "deepseek-r1": ["<｜Assistant｜>", "<think>", "</think>", *(f"<｜tool▁{name}｜>" for name in _SECTIONS)],
    "deepseek-v4": ["<｜Assistant｜>", "<think>", "</think>", "｜DSML｜"],
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
CALLS = {
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


def _texts(name: str) -> Iterator[str]:
    """With markers in letters, so that some tokens are pieces of them."""
    yield from TEXTS
    yield from CALLS[name]


@cache
def markers(name: str) -> Markers:
    tokenizer = small(name)
    return Markers(DEMO if name == "demo" else FORMATS[name], tokenizer, tokenizer.encode(STOP))
