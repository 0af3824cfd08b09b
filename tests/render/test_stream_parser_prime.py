"""Beside the parsers of PrimeIntellect's renderers: equal where the answer is well formed, and where it is not, why."""

import json
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from renderers import create_renderer
from renderers.configs import Qwen3RendererConfig
from renderers.parsing import parse_deepseek_v3, parse_deepseek_v4, parse_qwen35

from gateway.render.formats import FORMATS
from gateway.render.markers import Markers
from gateway.render.stream_parser import TokenParser
from tests.render import families
from tests.render.families import STOP, dsml, dsml_section, fenced, hermes, section, xml


@pytest.fixture(scope="module")
def both(qwen):
    """Prime's renderer for Qwen3, and a reader of the same ids."""
    renderer = create_renderer(qwen, Qwen3RendererConfig())
    return renderer, Markers(FORMATS["qwen3"], qwen, renderer.get_stop_token_ids())


def theirs(parsed):
    """Content, reasoning, and calls, as a client of theirs may see them."""
    calls = [(call.name, call.arguments) for call in parsed.tool_calls if call.status == "ok"]
    return parsed.content, parsed.reasoning_content or None, calls


def ours(markers, ids, prompt=(), tools=None):
    parser = TokenParser(markers, tools, prompt_ids=prompt)
    parser.feed(ids)
    parsed = parser.finish()
    calls = [(call.name, json.loads(call.arguments)) for call in parsed.tool_calls]
    return parsed.content, parsed.reasoning_content or None, calls


words = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="<"), max_size=8)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | words,
    lambda inner: st.lists(inner) | st.dictionaries(words, inner),
    max_leaves=4,
)
calls = st.lists(st.tuples(st.text("fg_", min_size=1), st.dictionaries(words, values, max_size=3)), max_size=3)


@given(words, words, calls)
def test_qwen3_answers_as_the_renderer_writes_them_are_parsed_alike(both, content, reasoning, calls):
    """By its own render, from the generation prompt to the end of the turn."""
    renderer, markers = both
    functions = [{"name": name, "arguments": json.dumps(given)} for name, given in calls]
    answer: dict[str, Any] = {"role": "assistant", "content": content, "reasoning_content": reasoning}
    answer["tool_calls"] = [{"id": "c", "type": "function", "function": function} for function in functions]
    user = [{"role": "user", "content": "u"}]
    prompt = renderer.render_ids(user, add_generation_prompt=True)
    completion = renderer.render_ids([*user, answer])[len(prompt) :]

    assert ours(markers, completion, prompt) == theirs(renderer.parse_response(completion, prompt_ids=prompt))


OK = hermes("f", '{"a": 1}')


@pytest.mark.parametrize(
    ("prompt", "text"),
    [
        ("", "<think>\nhm\n</think>\n\nok<|im_end|>"),
        ("<|im_start|>assistant\n<think>\n", "hm\n</think>\n\nok"),
        ("<|im_start|>assistant\n<think>\n", "hm"),
        ("<|im_start|>assistant\n<think>\n\n</think>\n\n", "ok"),
        ("<|im_start|>assistant\n", "ok<|im_end|>\nfoo"),
        ("", "ok<|endoftext|>foo"),
        ("", f"<think>hm {OK}"),
        ("", f"<think>hm {OK} b</think>ok"),
        ("", f"<think>a<think>b</think>c</think>{OK}{OK}"),
        ("", "a<think>b</think>c"),
        ("", "</think>ok"),
        ("", " \n ok \n"),
        ("", '<tool_call>{"name": "f"}</tool_call>'),
        ("", hermes("f", '{"a": "<tool_call>"}')),
        ("", ""),
    ],
)
def test_other_qwen3_answers_that_are_parsed_alike(both, qwen, prompt, text):
    """Thoughts from the prompt, drafts in them, ends of turns, markers out of place."""
    renderer, markers = both
    given, ids = (qwen.encode(part, add_special_tokens=False) for part in (prompt, text))
    assert ours(markers, ids, given) == theirs(renderer.parse_response(ids, prompt_ids=given))


def same(text):
    return text, None, []


@pytest.mark.parametrize(
    ("text", "here", "there"),
    [
        (f"a\n{OK}\nb", ("a\nb", None, [("f", {"a": 1})]), ("a", None, [("f", {"a": 1})])),
        ("a\n<tool_call>{", same("a\n<tool_call>{"), same("a")),
        ("<tool_call>x</tool_call>", same("<tool_call>x</tool_call>"), same("")),
        (hermes("", "{}"), same(hermes("", "{}")), same("")),
        (hermes("f", "null"), same(hermes("f", "null")), ("", None, [("f", None)])),
        (hermes("f", "[1]"), same(hermes("f", "[1]")), ("", None, [("f", [1])])),
        (hermes("f", '"{}"'), ("", None, [("f", {})]), ("", None, [("f", "{}")])),
        (hermes("f", '{"a": 1e999}'), same(hermes("f", '{"a": 1e999}')), ("", None, [("f", {"a": float("inf")})])),
        (hermes("f", '{"a": "\\ud800"}'), same(hermes("f", '{"a": "\\ud800"}')), ("", None, [("f", {"a": "\ud800"})])),
        (hermes("f", '{"a": 1, "a": 2}'), same(hermes("f", '{"a": 1, "a": 2}')), ("", None, [("f", {"a": 2})])),
        ('<tool_call>{"name": 5}</tool_call>', same('<tool_call>{"name": 5}</tool_call>'), ("", None, [(5, {})])),
        (f"<tool_call>{{{OK}", ("<tool_call>{", None, [("f", {"a": 1})]), same("")),
        ("<think>\n hm \n", ("", "hm", []), ("", "\n hm \n", [])),
    ],
)
def test_what_prime_makes_of_qwen3_answers_that_are_not_well_formed(both, qwen, text, here, there):
    """Text behind a call, broken calls, and white space in an open thought: the differences of docs/parsing.md."""
    renderer, markers = both
    ids = qwen.encode(text, add_special_tokens=False)
    assert ours(markers, ids) == here
    assert theirs(renderer.parse_response(ids)) == there


def test_prime_cuts_a_thought_where_its_end_is_spelled_in_letters(both, qwen):
    """It tells the thought by ids and the content by text."""
    renderer, markers = both
    parts = ("<think>a ", "</", "think", ">", " b</think>ok")
    ids = [i for part in parts for i in qwen.encode(part, add_special_tokens=False)]
    assert ours(markers, ids) == ("ok", "a </think> b", [])
    assert theirs(renderer.parse_response(ids)) == ("b</think>ok", "a </think> b", [])


PROPERTIES = {"b": {"type": "string"}}
TOOLS: list[dict[str, Any]] = [
    {"type": "function", "function": {"name": "f", "parameters": {"properties": PROPERTIES}}}
]


def prime(name):
    """Prime's parser of another family, over the small tokenizer."""
    tokenizer = families.small(name)

    def control(text):
        return tokenizer.get_vocab()[text]

    stops = {control(STOP)}
    if name.startswith("qwen"):
        markers = {"think_id": control("<think>"), "think_end_id": control("</think>")}
        calls = {"tool_call_id": control("<tool_call>"), "tool_call_end_id": control("</tool_call>")}
        return partial(parse_qwen35, tokenizer, stop_ids=stops, **markers, **calls, tools=TOOLS)
    if name == "deepseek-v4":
        markers = {"think_start_id": control("<think>"), "think_end_id": control("</think>")}
        return partial(parse_deepseek_v4, tokenizer, stop_ids=stops, thinking_enabled=False, **markers)
    ends = {
        f"tool_{name}_id": control(f"<｜tool▁{name.replace('_', '▁')}｜>")
        for name in ("calls_begin", "calls_end", "sep")
    }
    each = {f"tool_{name}_id": control(f"<｜tool▁{name.replace('_', '▁')}｜>") for name in ("call_begin", "call_end")}
    return partial(parse_deepseek_v3, tokenizer, stop_ids=stops, **ends, **each)


@pytest.mark.parametrize("name", ["qwen3.5", "deepseek-v3", "deepseek-r1", "deepseek-v4"])
@pytest.mark.parametrize("thought", ["", "<think>\nhm\n</think>\n\n"])
@pytest.mark.parametrize("content", ["", "ok é 漢字"])
@pytest.mark.parametrize("count", [0, 1, 2])
def test_well_formed_answers_of_the_other_families_are_parsed_alike(name, thought, content, count):
    """By their own functions, over ids of a small tokenizer."""
    given = {"a": 1, "b": "x <y>"}
    call = {"deepseek-v4": dsml("f", a='"false">1', b='"true">x <y>'), "qwen3.5": xml("f", a="1", b="x <y>")}
    one = call.get(name, fenced("f", json.dumps(given)))
    group = {"deepseek-v4": dsml_section, "qwen3.5": lambda *calls: "\n".join(calls)}.get(name, section)
    text = f"{thought}{content}{group(*[one] * count) if count else ''}{STOP}"
    ids = families.small(name).encode(text, add_special_tokens=False)

    content_, reasoning, calls = theirs(prime(name)(ids))
    assert ours(families.markers(name), ids, tools=TOOLS) == (content_.strip(), reasoning and reasoning.strip(), calls)
    assert calls == [("f", given)] * count


@pytest.mark.parametrize(
    ("name", "text", "here", "there"),
    [
        ("qwen3.5", xml("f", b="  x\n"), {"b": "  x\n"}, {"b": "x"}),
        ("qwen3.5", xml("f", a="x"), {"a": "x"}, None),
        ("qwen3.5", xml("f", a="1") + "x", {"a": 1}, {"a": 1}),
        ("qwen3.5", "<tool_call><function=f><parameter=a>1</parameter>x</function></tool_call>", None, {"a": 1}),
        ("qwen3.5", xml("f", a="1").replace("</function>", "<parameter=a>2</parameter>"), None, {"a": 2}),
        ("deepseek-v3", fenced("f", "{}"), {}, None),
        ("deepseek-v3", section(fenced("f", "{}").replace("function", "")), None, {}),
        ("deepseek-v4", f"<think>hm {dsml_section(dsml('f'))}</think>ok", None, {}),
        ("deepseek-v4", dsml_section(dsml("f")).replace("tool_calls", "toolcalls", 1), {}, {}),
    ],
)
def test_what_prime_makes_of_other_calls(name, text, here, there):
    """Indentation, text between parameters, calls outside of a section or in a thought."""
    ids = families.small(name).encode(text, add_special_tokens=False)
    expected = [[] if given is None else [("f", given)] for given in (here, there)]
    assert [ours(families.markers(name), ids, tools=TOOLS)[2], theirs(prime(name)(ids))[2]] == expected
