"""Completions as the cookbook's parsers read them, and what becomes of those that are ill."""

import random

import pytest

from gateway.render.tinker import TinkerRenderer
from tests.tinker.test_rendering import DEEPSEEK, LLAMA, OSS, QWEN, made
from tests.tinker.tokenizers import tokenizer

pytestmark = pytest.mark.xdist_group("tokenizers")  # each loaded once
CALL = '<tool_call>\n{"name": "look", "arguments": {"q": 1}}\n</tool_call>'


def parsed(name, which, said):
    return made(name, which).parse_response(tokenizer(*which).encode(said, add_special_tokens=False))


@pytest.mark.parametrize(
    ("said", "content", "reasoning"),
    [
        ("ok<|im_end|>", "ok", None),
        ("ok", "ok", None),
        ("<think>\nhm\n</think>\n\nok<|im_end|>", "ok", "hm"),
        ("<think>\nhm\n</think>\n\nok", "ok", "hm"),
        ("ok<|im_end|>\nfoo<|im_end|>", "ok", None),
        ("<think>hm", "<think>hm", None),
    ],
)
def test_text_and_thoughts(said, content, reasoning):
    """Up to the first stop id; an answer that was cut is read as far as it goes."""
    found = parsed("qwen3", QWEN, said)
    assert (found.content, found.reasoning_content, found.tool_calls) == (content, reasoning, ())


def test_calls_and_the_text_around_them():
    """White space beside a call is the template's."""
    found = parsed("qwen3", QWEN, f"a\n{CALL}\n{CALL}<|im_end|>")
    assert found.content == "a"
    assert [(call.name, call.arguments, call.status) for call in found.tool_calls] == [("look", '{"q": 1}', "ok")] * 2


@pytest.mark.parametrize(
    "broken",
    ["<tool_call>{bad}</tool_call>", '<tool_call>{"arguments": {}}</tool_call>', '<tool_call>{"name": "look", "argum'],
)
@pytest.mark.parametrize("end", ["<|im_end|>", ""])
def test_what_is_no_call_is_told_as_it_was_written_and_once(broken, end):
    """Whether it stands in the content by itself, or is told apart as a call that could not be parsed."""
    found = parsed("qwen3", QWEN, f"a{broken}{end}")
    (call,) = found.tool_calls
    assert (call.name, call.status) == (None, "malformed_structure")
    assert (found.content + call.raw).replace("\n", "") == f"a{broken}"


def test_a_whole_harmony_answer():
    """Channels are thoughts and content; a call has its own end."""
    said = (
        "<|channel|>analysis<|message|>hm<|end|><|start|>assistant<|channel|>commentary<|message|>look:<|end|>"
        '<|start|>assistant to=functions.look<|channel|>commentary <|constrain|>json<|message|>{"q": 1}<|call|>'
    )
    found = parsed("gpt_oss_no_sysprompt", OSS, said)
    assert (found.content, found.reasoning_content) == ("look:", "hm")
    assert [(call.name, call.arguments) for call in found.tool_calls] == [("look", '{"q": 1}')]


def test_deepseeks_calls():
    """Of V3.1, which writes bare JSON."""
    said = (
        "ok<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>look<｜tool▁sep｜>{}<｜tool▁call▁end｜><｜tool▁calls▁end｜>"
        "<｜end▁of▁sentence｜>"
    )
    found = parsed("deepseekv3", DEEPSEEK, said)
    assert (found.content, [(call.name, call.arguments) for call in found.tool_calls]) == ("ok", [("look", "{}")])


def test_an_answer_that_ends_in_letters():
    """The text that ends it, if it is still there, is no part of it."""
    assert parsed("role_colon", QWEN, " ok\n\nUser:").content == "ok"


@pytest.mark.parametrize(
    ("name", "which"), [("qwen3", QWEN), ("deepseekv3", DEEPSEEK), ("llama3", LLAMA), ("gpt_oss_no_sysprompt", OSS)]
)
def test_no_completion_is_too_odd_to_be_read(name, which):
    """Random ids, control tokens among them: a turn that was sampled is never lost to its parser."""
    renderer, noise = made(name, which), random.Random(0)
    controls = [*tokenizer(*which).get_added_vocab().values()]
    for _ in range(200):
        ids = [noise.choice((noise.choice(controls), noise.randrange(100_000))) for _ in range(noise.randrange(1, 12))]
        assert isinstance(renderer.parse_response(ids).content, str)


def test_a_parser_that_fails_loses_nothing(monkeypatch):
    """The text is there as it was sampled."""
    renderer: TinkerRenderer = made("llama3", LLAMA)

    def fail(_ids):
        raise KeyError("name")

    monkeypatch.setattr(renderer.wrapped, "parse_response", fail)
    ids = tokenizer(*LLAMA).encode("ok<|eot_id|>", add_special_tokens=False)
    assert renderer.parse_response(ids).content == "ok"


@pytest.mark.parametrize(
    ("name", "which", "is_known"), [("qwen3", QWEN, True), ("deepseekv3", DEEPSEEK, True), ("llama3", LLAMA, False)]
)
def test_streams_are_read_by_markers_where_we_know_how_the_model_writes(name, which, is_known):
    """Elsewhere an answer is read when it is whole."""
    assert (made(name, which).markers is not None) == is_known
