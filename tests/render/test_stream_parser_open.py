"""Formats whose calls have no closing marker, or no marker at all."""

import json

import pytest

from gateway.render.call_bodies import Call
from gateway.render.parsed import Delta
from tests.render.answers import CALL, F, ids, parser, read, said
from tests.render.families import STOP, array, parameters

OPEN = ["mistral", "granite"]
MARKER = {"mistral": "[TOOL_CALLS]", "granite": "<|tool_call|>"}
ONE, TWO = array(("f", '{"a": 1}')), array(("f", '{"a": 1}'), ("g", "{}"))
G = Call("g", "{}")
LLAMA = parameters("f", '{"a": 1}')


@pytest.mark.parametrize("name", OPEN)
def test_a_call_that_has_no_end_ends_with_the_answer_or_where_the_next_one_begins(name):
    """A list of them, too; text in front is content."""
    marker = MARKER[name]
    for end in ("", STOP, f"{STOP}more"):
        assert read(name, f"<think>hm</think>ok\n{marker} {TWO}{end}").tool_calls == (F, G)
    assert read(name, f"ok\n{marker}{ONE}{marker}{TWO}{STOP}") == said("ok", None, F, F, G)


@pytest.mark.parametrize("name", OPEN)
def test_one_that_is_unsound_or_cut_is_content_and_those_beside_it_are_calls(name):
    """All of a list, since nobody knows what the model meant by half of it."""
    marker = MARKER[name]
    for bad in ("", "{", "[]", "[5]", "{}", ONE[:-1], array(("f", "[1]")), array(("f", "{}"), ("", "{}"))):
        assert read(name, f"{marker}{ONE}{marker}{bad}") == said(f"{marker}{bad}", None, F, broken=True)
        assert read(name, f"{marker}{bad}{marker}{ONE}") == said(f"{marker}{bad}", None, F, broken=True)


@pytest.mark.parametrize("name", OPEN)
def test_a_call_in_a_thought_is_none_where_that_is_not_known_of_the_model(name):
    """As in every family that does not say otherwise."""
    assert read(name, f"<think>a {MARKER[name]}{ONE}") == said("", f"a {MARKER[name]}{ONE}")


@pytest.mark.parametrize(
    ("text", "call_id"),
    [
        ('f[ARGS]{"a": 1}', None),
        (' f [ARGS] {"a": 1}', None),
        ('f[CALL_ID]abcdefghi[ARGS]{"a": 1}', "abcdefghi"),
        ('f{"a": 1}', None),
        ('[{"name": "f", "arguments": {"a": 1}, "id": "abcdefghi"}]', "abcdefghi"),
    ],
)
def test_mistrals_templates_write_calls_in_several_ways(text, call_id):
    """Old ones a list, newer ones a name and its arguments; with the model's own id or without."""
    (call,) = read("mistral", f"[TOOL_CALLS]{text}").tool_calls
    assert (call, call.id) == (F, call_id)


def test_the_models_own_ids_are_kept_where_it_writes_them():
    """Its template shows them in the next prompt: Kimi's name the function."""
    assert [call.id for call in read("kimi-k2", CALL["kimi-k2"]).tool_calls] == ["functions.f:0"]
    assert [call.id for call in read("qwen3", CALL["qwen3"]).tool_calls] == [None]


def test_llamas_call_is_all_of_an_answer():
    """JSON without a marker, or behind the tag; both names of the arguments; several with a semicolon between."""
    for text in (LLAMA, f"<|python_tag|>{LLAMA}", f" \n{LLAMA}\n{STOP}", LLAMA.replace("parameters", "arguments")):
        assert read("llama-3", text) == said("", None, F)
    assert read("llama-3", f"{LLAMA}; {parameters('g', '{}')}") == said("", None, F, G)
    assert read("llama-3", f"ok\n<|python_tag|>{LLAMA}") == said("ok", None, F)


def test_llamas_call_is_text_where_no_tools_are_offered():
    """Nobody asked for one; behind the tag it is what it is."""
    assert read("llama-3", LLAMA, tools=None) == said(LLAMA)
    assert read("llama-3", LLAMA[:-1], tools=[]) == said(LLAMA[:-1])
    assert read("llama-3", f"<|python_tag|>{LLAMA}", tools=None) == said("", None, F)


@pytest.mark.parametrize(
    ("name", "text", "content"),
    [
        ("mistral", 'ok [TOOL_CALLS]f[ARGS]{"a": "[TOOL_CALLS]"}', 'ok\n[TOOL_CALLS]f[ARGS]{"a": "\n[TOOL_CALLS]"}'),
        ("llama-3", '<|python_tag|>print("<|python_tag|>")', '<|python_tag|>print("\n<|python_tag|>")'),
        ("minimax-m2", "use <invoke carefully", "use\n<invoke carefully"),
    ],
)
def test_a_piece_that_is_no_call_is_a_line_of_its_own(name, text, content):
    """As all pieces are, though it was written within one: only white space differs, and the ids keep that."""
    assert (read(name, text).content, read(name, text).tool_calls) == (content, ())


@pytest.mark.parametrize("text", ['{"a": 1}', "{", "{}", '{"name": "f"}', "{ hello }", f"ok {LLAMA}", f"[{LLAMA}]"])
def test_an_answer_in_braces_that_is_no_call_is_text(text):
    """A model may be asked for JSON."""
    assert read("llama-3", text) == said(text)


@pytest.mark.parametrize(
    "text", [LLAMA[:-1], parameters("f", "[1]"), f"{LLAMA} ok", f"{LLAMA};", "<|python_tag|>print(1)", "<|python_tag|>"]
)
def test_what_was_meant_as_a_call_and_is_none_is_text_and_flagged(text):
    """Arguments, or the tag, show that it was."""
    assert read("llama-3", text) == said(text, None, broken=True)


def test_a_call_without_an_end_is_told_when_the_answer_ends():
    """Nothing of it before."""
    reader = parser("llama-3")
    assert reader.feed(ids("llama-3", f"{LLAMA}{STOP}")) == []
    assert reader.finish() == said("", None, F)

    reader = parser("mistral")
    assert reader.feed(ids("mistral", f"ok[TOOL_CALLS]{ONE}")) == [Delta(content="ok")]
    assert reader.feed(ids("mistral", "[TOOL_CALLS]")) == [Delta(tool_calls=(F,))]


def test_deep_arguments_are_no_call_whatever_the_stack():
    """As everywhere."""
    deep = parameters("f", json.dumps({"a": 0}).replace("0", "[" * 100_000 + "]" * 100_000))
    assert read("llama-3", deep).tool_calls == ()
