"""Answers read by what the tokenizer says of them itself."""

import pytest

from gateway.render.call_bodies import Call
from gateway.render.discovery import AnswerReader, answer_format
from gateway.render.parsed import Parsed
from gateway.render.response_template import template_of
from tests.render import families
from tests.render.doubles import PlainTokenizer
from tests.render.families import STOP, hermes

CALLS = {
    "open": "<tool_call>",
    "close": "</tool_call>",
    "content": "json",
    "repeats": True,
    "transform": {"type": "function", "function": "{content}"},
}
TEMPLATE = {
    "start_anchor": "<|im_start|>assistant\n",
    "fields": {"thinking": {"open": "<think>", "close": "</think>"}, "tool_calls": CALLS, "content": {}},
}
TOOLS: list[dict[str, object]] = [{"type": "function", "function": {"name": "f"}}]


def answers(template):
    return answer_format(families.told("qwen3", response_template=template), None, {})


def read(text, prompt="", template=TEMPLATE):
    found = answers(template)
    reader = AnswerReader(found, found.tokenizer.encode(STOP))
    assert reader.markers is None
    ids = [found.tokenizer.encode(part, add_special_tokens=False) for part in (text, prompt)]
    return reader.read(ids[0], TOOLS, ids[1])


def test_a_tokenizer_that_says_how_is_believed():
    """And it says whether there are calls."""
    assert (answers(TEMPLATE).name, answers(TEMPLATE).takes_tools) == ("response template", True)
    fields = {name: field for name, field in TEMPLATE["fields"].items() if name != "tool_calls"}  # type: ignore[attr-defined]  # a dict
    assert not answers({**TEMPLATE, "fields": fields}).takes_tools


def test_a_format_that_is_named_comes_before_it():
    """Whoever runs the gateway knows better."""
    assert answer_format(families.told("qwen3", response_template=TEMPLATE), "hermes", {}).name == "hermes"


def test_thought_text_and_calls_are_told_apart():
    """Up to the first stop id, which is no text."""
    text = "<think>hm</think>ok" + hermes("f", '{"a": 1}') + f"{STOP}more"
    assert read(text) == Parsed("ok", "hm", (Call("f", '{"a": 1}'),), ("past_stop",))


def test_a_thought_may_have_been_opened_by_the_prompt():
    """Which is given, too."""
    assert read("hm</think>ok", "<|im_start|>assistant\n<think>") == Parsed("ok", "hm", ())


@pytest.mark.parametrize("broken", ["<tool_call>no json</tool_call>", '<tool_call>{"name": "f"'])
def test_what_cannot_be_read_is_content(broken):
    """As it was written, and flagged."""
    assert read(f"ok{broken}{STOP}") == Parsed(f"ok{broken}", None, (), ("malformed_tool_call",))


def test_a_call_that_no_client_can_be_given_is_content():
    """Beside those that are sound."""
    said = read(f"{hermes('f', '[1]')}{hermes('g', '{}')}")
    assert said.tool_calls == (Call("g", "{}"),)
    assert ('"arguments": [1]' in said.content, said.flags) == (True, ("malformed_tool_call",))


def test_where_this_transformers_cannot_read_it_there_is_none():
    """Or where there is no transformers at all."""
    assert template_of(PlainTokenizer()) is None
