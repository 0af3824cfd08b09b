"""What the model writes, and what the client gets: a line for each rule, in each family that it concerns."""

import json
import re
from typing import Any

import pytest

from gateway.render.call_bodies import Call
from gateway.render.parsed import Parsed
from tests.render import families
from tests.render.answers import (
    ALL,
    ALONE,
    BROKEN,
    CALL,
    CHATML,
    DEEPSEEK,
    HEADER,
    TRIMMED,
    XML,
    F,
    ids,
    parser,
    read,
    said,
    spelled,
)
from tests.render.families import STOP, dsml, dsml_section, fenced, hermes, xml


@pytest.mark.parametrize("name", ALL)
def test_thought_text_and_call_are_told_apart(name):
    """The plain case, as the templates write it."""
    text = f"<think>\nhm\n</think>\n\nok\n{CALL[name]}{STOP}"
    assert read(name, text) == said("ok", "hm", F)


@pytest.mark.parametrize("name", ALL)
def test_the_first_stop_id_ends_the_answer(name):
    """What was sampled behind it says nothing, in the same feed or a later one, and is known to be there."""
    unseen = Parsed("ok", None, (), ("past_stop",))
    for fed in (["ok", STOP, "no<think>"], [f"ok{STOP}no", "more"], [f"ok{STOP}{STOP}"]):
        reader = parser(name)
        for text in fed:
            reader.feed(ids(name, text))
        assert reader.finish() == unseen


@pytest.mark.parametrize("name", ALL)
def test_a_thought_opens_only_at_the_start(name):
    """Behind white space it does; behind a word the marker is text."""
    assert read(name, " \n <think>hm</think>ok") == said("ok", "hm")
    assert read(name, "a<think>hm</think>ok") == said("a<think>hm</think>ok")
    assert read(name, "</think>ok") == said("</think>ok")


@pytest.mark.parametrize("name", ALL)
def test_later_markers_of_thoughts_are_text_and_one_in_a_thought_is_dropped(name):
    """The first closing marker ends the thought for good."""
    assert read(name, "<think>a<think>b</think>c<think>d</think>") == said("c<think>d</think>", "ab")


@pytest.mark.parametrize("name", ALL)
def test_a_thought_may_have_been_opened_by_the_prompt(name):
    """Not one that is closed there, nor one before the last header, nor one that only a user wrote."""
    header = HEADER[name]
    assert read(name, "hm</think>ok", f"x{header}<think>\n") == said("ok", "hm")
    assert read(name, "hm", f"{header}<think>\n") == said("", "hm")
    for prompt in (f"{header}<think>\n\n</think>\n\n", f"<think>{header}", "<think>\n", f"<think>{header}a", ""):
        assert read(name, "ok", prompt) == said("ok")


def test_the_last_header_must_be_the_assistants():
    """Else nobody knows who thinks."""
    assert read("qwen3", "ok", "<|im_start|>user\n<think>") == said("ok")
    assert read("qwen3", "ok", "<|im_start|>") == said("ok")


def test_behind_tool_results_deepseek_thinks_without_a_header():
    """As R1's prompts have it; a result that says so is no thought."""
    results = "<｜Assistant｜>x<｜tool▁outputs▁begin｜><think><｜tool▁outputs▁end｜>"
    assert read("deepseek-r1", "hm</think>ok", f"{results}<think>\n") == said("ok", "hm")
    assert read("deepseek-v3", "ok", results) == said("ok")


@pytest.mark.parametrize("name", ALL)
def test_a_thought_that_never_closes_is_all_reasoning(name):
    """Trimmed as a closed one."""
    assert read(name, "<think>\nhm\n") == said("", "hm")
    assert read(name, "<think>") == said("", "")


@pytest.mark.parametrize("name", ["qwen3", *XML, "deepseek-v4", "glm-4.5", "kimi-k2", "minimax-m2"])
def test_a_call_in_a_thought_that_never_closes_is_a_call(name):
    """It ended the thought, and text goes on behind it; a broken one is content as everywhere."""
    assert read(name, f"<think>hm\n{CALL[name]}\nok") == said("ok", "hm", F)
    assert read(name, f"<think>hm{CALL[name]}<think>{CALL[name]}") == said("<think>", "hm", F, F)
    opener = CALL[name].partition(ALONE[name])[0]
    cut = re.split("</tool_call>|</｜DSML｜invoke>|<.tool_call_end.>|</invoke>", ALONE[name])[0].rstrip()
    assert read(name, f"<think>hm{opener}{cut}") == said(cut, "hm", broken=True)


@pytest.mark.parametrize("name", ALL)
def test_a_call_in_a_thought_that_closes_is_a_draft(name):
    """All of it is reasoning; markers that open thoughts are dropped from it as from any."""
    call = CALL[name]
    assert read(name, f"<think>a {call}<think> b</think>ok {call}") == said(
        "ok" + " " * (name == "demo"), f"a {call} b", F
    )


@pytest.mark.parametrize("name", ["demo", *DEEPSEEK, "phi-4", "jamba", "seed-xml", "deepseek-json"])
def test_some_families_never_call_in_thoughts(name):
    """There a call is reasoning even if the thought stays open."""
    assert read(name, f"<think>a {CALL[name]}") == said("", f"a {CALL[name]}")


@pytest.mark.parametrize("name", ALL)
def test_text_before_between_and_after_calls_is_kept_in_order(name):
    """A piece each, joined by a newline."""
    call = CALL[name]
    assert read(name, f"a\n{call}\nb\n{call}{call}\nc") == said("a\nb\nc", None, F, F, F)


@pytest.mark.parametrize("name", TRIMMED)
def test_white_space_around_pieces_is_the_templates(name):
    """In front, behind, and around thoughts and calls, in whatever amount."""
    text = f" \n<think>\n\n hm \n</think> \n\n a  b \n\n{CALL[name]} \n\t\u00a0c \n "
    assert read(name, text) == said("a  b\nc", "hm", F)
    assert read(name, " \n ") == said("")


def test_the_demo_takes_off_what_its_template_writes_and_no_more():
    """One newline around a call and inside a thought, two behind it."""
    text = f" \n<think>\n\n hm \n\n</think>\n\n\n a \n\n{CALL['demo']}\n\nc \n"
    assert read("demo", text) == said("\n a \n\n\nc \n", "\n hm \n", F)
    assert read("demo", "<think></think>\na") == said("\na", "")
    assert read("demo", f"<think></think>\n{CALL['demo']}") == said("", "", F)
    assert read("demo", f"\n{CALL['demo']}") == said("", None, F)
    assert read("demo", " \n ") == said(" \n ")


@pytest.mark.parametrize("name", ALL)
def test_a_broken_call_is_content_in_its_place_as_it_was_written(name):
    """A piece of its own; the calls around it stay calls."""
    good, bad = CALL[name], BROKEN[name]
    assert read(name, f"a\n{good}\nb\n{bad}\nc\n{good}") == said(f"a\nb\n{bad}\nc", None, F, F, broken=True)


@pytest.mark.parametrize("name", ALL)
def test_a_call_that_is_cut_is_content(name):
    """By the end of the answer or its stop id."""
    cut = BROKEN[name][:-1]
    for end in ("", STOP):
        assert read(name, f"a\n{cut}{end}") == said(f"a\n{cut}", broken=True)


@pytest.mark.parametrize("name", ALL)
def test_a_call_that_was_not_closed_does_not_take_the_next_one_with_it(name):
    """The last opening counts if the whole is no call."""
    opener = BROKEN[name][:20]
    assert read(name, f"{opener}{ALONE[name]}") == said(opener.rstrip(), None, F, broken=True)
    assert read(name, f"{opener}{BROKEN[name]}") == said(opener + BROKEN[name], broken=True)


def test_a_call_may_speak_of_calls():
    """An opening marker in its arguments, though a token, is text of theirs."""
    assert read("qwen3", hermes("f", '{"a": "<tool_call>"}')) == said("", None, Call("f", '{"a": "<tool_call>"}'))
    assert read("qwen3.5", xml("f", a="<tool_call>")) == said("", None, Call("f", '{"a": "<tool_call>"}'))
    said_so = dsml_section(dsml("f", a='"true"><｜DSML｜invoke'))
    assert read("deepseek-v4", said_so) == said("", None, Call("f", '{"a": "<｜DSML｜invoke"}'))


@pytest.mark.parametrize("name", ALL)
def test_a_closing_marker_without_a_call_is_text(name):
    """So is the end of a section that was not begun."""
    for marker in (
        "</tool_call>",
        "<｜tool▁call▁end｜>",
        "<｜tool▁calls▁end｜>",
        "</｜DSML｜invoke>",
        "</｜DSML｜tool_calls>",
        *("<|tool_call_end|>", "<|tool_calls_section_end|>", "</invoke>", "</minimax:tool_call>"),
        *("<|/tool_call|>", "</tool_calls>", "</seed:tool_call>"),
    ):
        assert read(name, f"a{marker}b") == said(f"a{marker}b")


@pytest.mark.parametrize(
    ("name", "opened", "call", "closed"),
    [
        *((name, "<｜tool▁calls▁begin｜>", fenced("f", '{"a": 1}'), "<｜tool▁calls▁end｜>") for name in DEEPSEEK),
        ("deepseek-v4", "<｜DSML｜tool_calls>", dsml("f", a='"false">1'), "</｜DSML｜tool_calls>"),
        ("kimi-k2", "<|tool_calls_section_begin|>", ALONE["kimi-k2"], "<|tool_calls_section_end|>"),
        ("minimax-m2", "<minimax:tool_call>", ALONE["minimax-m2"], "</minimax:tool_call>"),
    ],
)
def test_sections_say_nothing_and_text_in_them_is_content(name, opened, call, closed):
    """Calls count without one, too, and one may stay open or be opened twice."""
    assert read(name, f"a {opened} b {call}\n{call} c {closed} d") == said("a\nb\nc\nd", None, F, F)
    assert read(name, f"{call}") == read(name, f"{opened}{call}") == read(name, f"{opened}{opened}{call}{closed}")
    assert read(name, f"{opened}\n{closed}") == said("")


@pytest.mark.parametrize("name", CHATML)
def test_markers_in_letters_are_letters(name):
    """A model that spells a marker says its letters."""
    text = f"<think>\nhm\n</think>\n\nok\n{CALL[name]}"
    reader = parser(name)
    reader.feed(spelled(name, text))
    assert reader.finish() == said(text)


def test_markers_that_are_text_are_found_across_tokens():
    """DeepSeek-V3 has no token for a thought, V4 none for a call."""
    for name, text in (("deepseek-v3", "<think>hm</think>ok"), ("deepseek-v4", CALL["deepseek-v4"])):
        tokens = spelled(name, text.replace("｜DSML｜", "\0"))
        whole = [i for token in tokens for i in (ids(name, "｜DSML｜") if [token] == ids(name, "\0") else [token])]
        reader = parser(name)
        reader.feed(whole)
        assert reader.finish() == read(name, text)


def test_half_a_character_is_no_character_for_a_marker_either():
    """It is broken text, so the marker behind it opens no thought."""
    half = ids("qwen3", "é")[:1] if len(ids("qwen3", "é")) > 1 else [families.small("qwen3").get_vocab()["Ã"]]
    reader = parser("qwen3")
    reader.feed([*half, *ids("qwen3", "<think>a")])
    assert reader.finish() == said("\ufffd<think>a")


def test_the_types_of_parameters_come_from_the_tools():
    """Without quotes only a schema tells text from numbers."""
    properties = {"a": {"type": "string"}}
    tools: list[dict[str, Any]] = [
        {"type": "function", "function": {"name": "f", "parameters": {"properties": properties}}}
    ]
    assert read("qwen3.5", CALL["qwen3.5"], tools=tools) == said("", None, Call("f", '{"a": "1"}'))


def test_arguments_that_nest_too_deeply_are_no_call():
    """At a depth that does not hang on the stack on which they are read."""
    deep = {
        depth: hermes("f", json.dumps({"a": 0}).replace("0", "[" * depth + "]" * depth))
        for depth in (100, 300, 100_000)
    }
    assert [bool(read("qwen3", text).tool_calls) for text in deep.values()] == [True, False, False]
    assert read("qwen3", deep[300]).content == deep[300]
