"""Answers of each family, sound and broken, and what the parser makes of them."""

from gateway.render.call_bodies import Call
from gateway.render.parsed import Parsed
from gateway.render.stream_parser import TokenParser
from tests.render import families
from tests.render.families import dsml, dsml_section, fenced, hermes, section, xml

QWEN, XML = ["demo", "qwen3"], ["qwen3.5", "qwen3.6"]
CHATML, DEEPSEEK = [*QWEN, *XML], ["deepseek-v3", "deepseek-r1"]
TRIMMED = ["qwen3", *XML, *DEEPSEEK, "deepseek-v4"]
ALL = ["demo", *TRIMMED]
F = Call("f", '{"a": 1}')
CALL = {
    **dict.fromkeys(QWEN, hermes("f", '{"a": 1}')),
    **dict.fromkeys(XML, xml("f", a="1")),
    **dict.fromkeys(DEEPSEEK, section(fenced("f", '{"a": 1}'))),
    "deepseek-v4": dsml_section(dsml("f", a='"false">1')),
}
"""The same call in each family."""
BROKEN = {
    **dict.fromkeys(QWEN, hermes("f", "null")),
    **dict.fromkeys(XML, "<tool_call>\nnonsense\n</tool_call>"),
    **dict.fromkeys(DEEPSEEK, fenced("f", "[1]")),
    "deepseek-v4": dsml("f", a='"false">nonsense'),
}
HEADER = {**dict.fromkeys(CHATML, "<|im_start|>assistant\n"), **dict.fromkeys(ALL[4:], "<｜Assistant｜>")}


def ids(name, text):
    return families.small(name).encode(text, add_special_tokens=False)


def parser(name, prompt="", **options):
    return TokenParser(families.markers(name), prompt_ids=ids(name, prompt), **options)


def read(name, text, prompt="", **options):
    reader = parser(name, prompt, **options)
    reader.feed(ids(name, text))
    return reader.finish()


def said(content="", reasoning=None, *calls, broken=False):
    return Parsed(content, reasoning, calls, ("malformed_tool_call",) if broken else ())


def spelled(name, text):
    """The ids of its letters, one by one."""
    return [i for letter in text for i in ids(name, letter)]
