"""The same history by prime and by tinker-cookbook, where no template could tell which is right, and where one could.

What differs is written down as edits that make prime's text the cookbook's: a difference that is not among them fails,
and so does an edit that nothing needs any more.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import pytest
import renderers

from gateway.render.tinker import TinkerRenderer
from tests.tinker.tokenizers import tokenizer

pytestmark = pytest.mark.filterwarnings(
    "ignore:use_system_prompt=True but"
)  # which the cookbook says of any system message
Case = tuple[list[dict[str, Any]], list[dict[str, Any]] | None]

_LOOK = {"type": "object", "properties": {"q": {"type": "string"}}, "required": ["q"]}
TOOLS: list[dict[str, Any]] = [
    {"type": "function", "function": {"name": "look", "description": "It looks.", "parameters": _LOOK}}
]


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def answer(text: str, *calls: str, thought: str | None = None) -> dict[str, Any]:
    """An answer that calls the tool with each of some ids."""
    function = {"name": "look", "arguments": '{"q": "x"}'}
    made = [{"id": one, "type": "function", "function": function} for one in calls]
    optional = {"tool_calls": made, "reasoning_content": thought}
    return {"role": "assistant", "content": text} | {key: value for key, value in optional.items() if value}


def result(call: str, text: str) -> dict[str, Any]:
    return {"role": "tool", "content": text, "tool_call_id": call}


SYSTEM: dict[str, Any] = {"role": "system", "content": "Be brief."}
HI = user("hi")
CASES: Mapping[str, Case] = {
    "user": ([HI], None),
    "system": ([SYSTEM, HI], None),
    "turns": ([SYSTEM, HI, answer("ok"), user("why?")], None),
    "unicode": ([user("漢字 é 👩‍👩‍👧"), answer("naïve"), user("¿?")], None),
    "thought": ([HI, answer("ok", thought="hm"), user("why?")], None),
    "tools": ([HI], TOOLS),
    "tools, system": ([SYSTEM, HI], TOOLS),
    "call": ([HI, answer("", "a"), result("a", "r")], TOOLS),
    "text, call": ([HI, answer("ok", "a"), result("a", "r")], TOOLS),
    "thought, call": ([HI, answer("ok", "a", thought="hm"), result("a", "r")], TOOLS),
    "results": ([HI, answer("ok", "a", "b"), result("a", "r"), result("b", "s")], TOOLS),
    "result, user": ([HI, answer("ok", "a"), result("a", "r"), answer("so"), user("and?")], TOOLS),
}


@dataclass(frozen=True, slots=True)
class Edit:
    """What the cookbook writes otherwise than prime."""

    why: str
    pattern: str
    replacement: str


@dataclass(frozen=True, slots=True)
class Pair:
    """Two renderers of one model."""

    folder: str
    model: str
    prime: str
    tinker: str
    edits: tuple[Edit, ...] = ()
    unlike: tuple[str, ...] = ()
    """Histories that no edit makes alike, since an edit of one text cannot tell what another has left out."""

    def __str__(self) -> str:
        return f"{self.folder}-{self.tinker}"


_OWN_THOUGHT = Edit("a thought is dropped as soon as a result is there", r"<think>\nhm\n</think>\n\n(?=ok\n)", "")
_CALLS = "Calls to these tools must go to the commentary channel: 'functions'."
PAIRS = (
    Pair(
        "qwen3",
        "Qwen/Qwen3-8B",
        "qwen3",
        "qwen3",
        (_OWN_THOUGHT, Edit("each result is a message", r"\n(?=<tool_response>\ns)", "<|im_end|>\n<|im_start|>user\n")),
    ),
    Pair(
        "qwen3_6",
        "Qwen/Qwen3.6-27B",
        "qwen3.6",
        "qwen3_5",
        (
            Edit("a tool is declared without its type", r'\{"type": "function", "function": (.*)\}\n', r"\1\n"),
            _OWN_THOUGHT,
        ),
    ),
    Pair(
        "gptoss",
        "openai/gpt-oss-20b",
        "gpt-oss",
        "gpt_oss_medium_reasoning",
        (
            Edit("the answer's channel is not opened", r"<\|channel\|>analysis<\|message\|>\Z", ""),
            Edit("empty lines end the instructions", r"(# Instructions\n\nBe brief\.)(?=<\|end\|>)", r"\1\n\n"),
            Edit("how to call is a message of its own", rf"\n(?={_CALLS})", "<|end|><|start|>system<|message|>"),
            Edit("parameters begin on a new line", r"\(_: \{", "(_:\n{"),
            Edit(
                "text before a call is a comment",
                r"final(?=<\|message\|>ok<\|end\|><\|start\|>assistant to=)",
                "commentary",
            ),
            Edit(
                "a call says that it is JSON",
                r"( to=functions\.look<\|channel\|>commentary)(?=<\|message\|>)",
                r"\1 <|constrain|>json",
            ),
            Edit("a result is named after its call", r"functions\.unknown", "functions.look"),
        ),
        unlike=("thought",),
    ),
    Pair(
        "deepseek_v4",
        "deepseek-ai/DeepSeek-V4-Flash-0731",
        "deepseek-v4",
        "deepseekv4_1_disable_thinking",
        (
            Edit("V4.1 marks the system message", r"\A(<｜begin▁of▁sentence｜>)(?!<｜User｜>)", r"\1<｜System｜>"),
            Edit("V4.1 has other marks of calls", r"<(/?)｜DSML｜(?:tool_)?(?=\w)", r"<\1｜DSML｜ "),
        ),
    ),
)


EACH = pytest.mark.parametrize(
    "pair", [pytest.param(pair, id=str(pair), marks=pytest.mark.xdist_group(pair.folder)) for pair in PAIRS]
)


@EACH
@pytest.mark.parametrize("case", CASES)
def test_both_write_the_same_but_for_what_is_written_down(pair, case):
    """Where nothing is, they write the same ids."""
    (ids, text), (others_ids, others_text) = written(pair, case)
    edited = text
    for edit in pair.edits:
        edited = re.sub(edit.pattern, edit.replacement, edited)
    assert (edited == others_text) == (case not in pair.unlike)
    assert (edited != text) or (ids == others_ids) or case in pair.unlike


@EACH
def test_each_difference_that_is_written_down_is_there(pair):
    """One that vanished with a new version is no reason for anything any more."""
    used = {edit.why for edit in pair.edits for case in CASES if re.search(edit.pattern, written(pair, case)[0][1])}
    assert used == {edit.why for edit in pair.edits}


@cache
def written(pair: Pair, case: str) -> tuple[tuple[list[int], str], tuple[list[int], str]]:
    """Prime's ids and text, and the cookbook's."""
    messages, tools = CASES[case]
    both = [list(one.render_ids(messages, tools=tools, add_generation_prompt=True)) for one in _made(pair)]
    one, other = ((ids, tokenizer(pair.folder, pair.model).decode(ids)) for ids in both)
    return one, other


@cache
def _made(pair: Pair) -> tuple[Any, TinkerRenderer]:
    mine = tokenizer(pair.folder, pair.model)
    prime = renderers.create_renderer(mine, renderers.config_from_name(pair.prime))
    return prime, TinkerRenderer(pair.tinker, mine, model=pair.model)
