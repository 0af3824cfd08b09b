"""Answers of each family, sound and broken, and what the parser makes of them."""

from gateway.render.call_bodies import Call
from gateway.render.parsed import Parsed
from gateway.render.protocol import MessageDict
from gateway.render.stream_parser import TokenParser
from tests.render import families
from tests.render.families import (
    array,
    dsml,
    dsml_section,
    fenced,
    hermes,
    invoked,
    invoked_section,
    keyed,
    numbered,
    numbered_section,
    section,
    separated,
    xml,
)

QWEN, XML = ["demo", "qwen3"], ["qwen3.5", "qwen3.6"]
CHATML, DEEPSEEK = [*QWEN, *XML], ["deepseek-v3", "deepseek-r1"]
OTHERS = ["glm-4.5", "kimi-k2", "minimax-m2", "phi-4", "jamba", "seed-xml", "deepseek-json"]
TRIMMED = ["qwen3", *XML, *DEEPSEEK, "deepseek-v4", *OTHERS]
ALL = ["demo", *TRIMMED]
F = Call("f", '{"a": 1}')
ALONE = {
    **dict.fromkeys(QWEN, hermes("f", '{"a": 1}')),
    **dict.fromkeys(XML, xml("f", a="1")),
    **dict.fromkeys(DEEPSEEK, fenced("f", '{"a": 1}')),
    "deepseek-v4": dsml("f", a='"false">1'),
    "glm-4.5": keyed("f", a="1"),
    "kimi-k2": numbered("f", '{"a": 1}'),
    "minimax-m2": invoked("f", a="1"),
    "phi-4": "<|tool_call|>" + array(("f", '{"a": 1}')) + "<|/tool_call|>",
    "jamba": "<tool_calls>" + array(("f", '{"a": 1}')) + "</tool_calls>",
    "seed-xml": xml("f", a="1").replace("tool_call>", "seed:tool_call>"),
    "deepseek-json": separated("f", '{"a": 1}'),
}
"""The same call in each family, without a section around it."""
SECTION = {
    **dict.fromkeys((*DEEPSEEK, "deepseek-json"), section),
    "deepseek-v4": dsml_section,
    "kimi-k2": numbered_section,
    "minimax-m2": invoked_section,
}
CALL = {name: SECTION.get(name, str)(call) for name, call in ALONE.items()}
BROKEN = {
    **dict.fromkeys(QWEN, hermes("f", "null")),
    **dict.fromkeys(XML, "<tool_call>\nnonsense\n</tool_call>"),
    **dict.fromkeys(DEEPSEEK, fenced("f", "[1]")),
    "deepseek-v4": dsml("f", a='"false">nonsense'),
    "glm-4.5": "<tool_call>f\n<arg_key>a</arg_key>\n</tool_call>",
    "kimi-k2": numbered("f", "[1]"),
    "minimax-m2": '<invoke name="f">\n<parameter name="a">1\n</invoke>',
    "phi-4": f"<|tool_call|>{array(('f', '[1]'))}<|/tool_call|>",
    "jamba": f"<tool_calls>{array(('f', '[1]'))}</tool_calls>",
    "seed-xml": "<seed:tool_call>\nnonsense\n</seed:tool_call>",
    "deepseek-json": separated("f", "[1]"),
}
HEADER = {name: families.form(name).headers[0] for name in ALL}


def ids(name, text):
    return families.small(name).encode(text, add_special_tokens=False)


def parser(name, prompt="", **options):
    offered: list[MessageDict] = [{"type": "function", "function": {"name": "any"}}]
    return TokenParser(families.markers(name), prompt_ids=ids(name, prompt), **{"tools": offered} | options)


def read(name, text, prompt="", **options):
    reader = parser(name, prompt, **options)
    reader.feed(ids(name, text))
    return reader.finish()


def said(content="", reasoning=None, *calls, broken=False):
    return Parsed(content, reasoning, calls, ("malformed_tool_call",) if broken else ())


def spelled(name, text):
    """The ids of its letters, one by one."""
    return [i for letter in text for i in ids(name, letter)]
