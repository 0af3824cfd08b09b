"""GLM, Kimi, MiniMax and Llama beside prime's parsers."""

import json
from functools import partial
from typing import Any

import pytest
from renderers.parsing import parse_glm, parse_kimi_k2, parse_llama_3, parse_minimax

from tests.render import families
from tests.render.families import STOP, invoked, invoked_section, keyed, numbered, numbered_section, parameters
from tests.render.test_stream_parser_prime import TOOLS, ours, theirs


def prime_of(name):
    """Prime's parsers of further families, with the markers that each has as tokens."""
    tokenizer = families.small(name)

    def control(text):
        return tokenizer.get_vocab()[text]

    parse = partial(PARSERS[name], tokenizer, stop_ids={control(STOP)})
    return partial(parse, **{option: control(text) for option, text in OPTIONS.get(name, {}).items()})


_THINK = {"think_id": "<think>", "think_end_id": "</think>"}
PARSERS: dict[str, Any] = {
    "glm-4.5": parse_glm,
    "kimi-k2": parse_kimi_k2,
    "minimax-m2": parse_minimax,
    "llama-3": parse_llama_3,
}
OPTIONS = {
    "glm-4.5": {
        **_THINK,
        "tool_call_id": "<tool_call>",
        "tool_call_end_id": "</tool_call>",
        **{f"arg_{part}_id": f"<arg_{part}>" for part in ("key", "value")},
        **{f"arg_{part}_end_id": f"</arg_{part}>" for part in ("key", "value")},
    },
    "minimax-m2": {**_THINK, "tool_call_id": "<minimax:tool_call>", "tool_call_end_id": "</minimax:tool_call>"},
    "kimi-k2": {
        f"tool_{part}_id": f"<|tool_{part}|>"
        for part in ("calls_section_begin", "calls_section_end", "call_begin", "call_argument_begin", "call_end")
    },
}


@pytest.mark.parametrize("name", ["glm-4.5", "kimi-k2", "minimax-m2"])
@pytest.mark.parametrize("thought", ["", "<think>\nhm\n</think>\n\n", "<think>hm"])
@pytest.mark.parametrize("content", ["", "ok é 漢字"])
@pytest.mark.parametrize("count", [0, 1, 2])
def test_well_formed_answers_of_further_families_are_parsed_alike(name, thought, content, count):
    """A call in a thought that stays open, too."""
    given = {"a": 1, "b": "x <y>"}
    one = {"glm-4.5": keyed("f", a="1", b="x <y>"), "minimax-m2": invoked("f", a="1", b="x <y>")}
    call = one.get(name, numbered("f", json.dumps(given)))
    group = {"minimax-m2": invoked_section, "kimi-k2": numbered_section}.get(name, lambda *calls: "\n".join(calls))
    text = f"{thought}{content}\n{group(*[call] * count) if count else ''}{STOP}"
    ids = families.small(name).encode(text, add_special_tokens=False)

    content_, reasoning, calls = theirs(prime_of(name)(ids, **({} if name == "kimi-k2" else {"tools": TOOLS})))
    ours_ = ours(families.markers(name), ids, tools=TOOLS)
    assert ours_ == (content_.strip(), reasoning and reasoning.strip(), calls)
    assert calls == [("f", given)] * count


@pytest.mark.parametrize(
    "text", ["ok", " ok\n", parameters("f", '{"a": 1}'), parameters("f", "{}") + "\n", '{"a": 1}', "{"]
)
def test_llamas_answers_are_parsed_alike(text):
    """A call is all of an answer."""
    ids = families.small("llama-3").encode(text + STOP, add_special_tokens=False)
    assert ours(families.markers("llama-3"), ids, tools=TOOLS) == theirs(prime_of("llama-3")(ids))


@pytest.mark.parametrize(
    ("name", "text", "here", "there"),
    [
        ("llama-3", '{"name": "f"}', None, {}),
        ("llama-3", f"{parameters('f', '{}')}; {parameters('f', '{}')}", {}, None),
        ("llama-3", f"<|python_tag|>{parameters('f', '{}')}", {}, None),
        ("llama-3", parameters("f", "[1]"), None, [1]),
        ("glm-4.5", keyed("f", b=" x "), {"b": " x "}, {"b": "x"}),
        ("glm-4.5", keyed("f", b="x").replace("</tool_call>", "y</tool_call>"), None, {"b": "x"}),
        ("minimax-m2", invoked_section(invoked("f", b=" x ")), {"b": " x "}, {"b": "x"}),
        ("minimax-m2", invoked("f", b="x"), {"b": "x"}, None),
        ("kimi-k2", numbered("f", "{}"), {}, None),
    ],
)
def test_what_prime_makes_of_calls_of_further_families(name, text, here, there):
    """White space in values, text between them, calls outside of a section, several of Llama's."""
    ids = families.small(name).encode(text, add_special_tokens=False)
    options: dict[str, Any] = {"tools": TOOLS} if name in ("glm-4.5", "minimax-m2") else {}
    found = [ours(families.markers(name), ids, tools=TOOLS)[2], theirs(prime_of(name)(ids, **options))[2]]
    assert [calls[:1] for calls in found] == [[] if given is None else [("f", given)] for given in (here, there)]
