"""Histories of all shapes, as an agent sends them to a chat template, and what a renderer and a template make of them."""

from collections.abc import Mapping
from typing import Any

Dicts = list[dict[str, Any]]

TOOLS: Dicts = [
    {
        "type": "function",
        "function": {
            "name": name,
            "description": 'Looks <it> up & says "so".',
            "parameters": {"type": "object", "properties": {"q": {"type": "string"}, "é": {}}, "required": ["q"]},
        },
    }
    for name in ("look", "run_code")
]


def system(text: str) -> dict[str, Any]:
    return {"role": "system", "content": text}


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def said(text: str | None, thought: str | None = None, calls: Mapping[str, str] | None = None) -> dict[str, Any]:
    """An answer; `calls` are names and arguments."""
    told = [
        {"id": f"call_{nth:024}", "type": "function", "function": {"name": name, "arguments": given}}
        for nth, (name, given) in enumerate((calls or {}).items())
    ]
    reasoning = {} if thought is None else {"reasoning_content": thought}
    return {"role": "assistant", "content": text, **reasoning, **({"tool_calls": told} if told else {})}


def result(text: str, nth: int = 0) -> dict[str, Any]:
    return {"role": "tool", "content": text, "tool_call_id": f"call_{nth:024}"}


_ONE = {"look": '{"q": "漢", "n": [1, 2.5]}'}
_TWO = {**_ONE, "run_code": '{"code": "a\\n<b>"}'}


def _has_calls(history: Dicts) -> bool:
    return any("tool_calls" in message for message in history)


HISTORIES: Mapping[str, Dicts] = {
    "user": [user("hi")],
    "system": [system("Be brief."), user("hi")],
    "several turns": [user("a"), said("b"), user("c"), said("d\n\ne"), user("f")],
    "system, several turns": [system("Be brief."), user("a"), said("b"), user("c")],
    "ends in an answer": [user("a"), said("b")],
    "unicode": [system("é"), user("naïve 漢字 👩‍👩‍👧 \u200d\u00a0 السلام"), said("ñ\u0301 🤷🏽"), user("\\u0041\t")],
    "empty texts": [system(""), user(""), said(""), user("")],
    "spaces around": [user("  a \n"), said("\n b  "), user("\tc\n\n")],
    "two users": [user("a"), user("b")],
    "system amid": [user("a"), said("b"), system("Be brief."), user("c")],
    "thought": [user("a"), said("b", "hm")],
    "thought before a user": [user("a"), said("b", "hm"), user("c")],
    "thought in letters": [user("a"), said("<think>\nhm\n</think>\n\nb"), user("c")],
    "thought before a result": [user("a"), said("", "hm", _ONE), result("7")],
    "call": [user("a"), said("", calls=_ONE), result("7")],
    "call without content": [user("a"), said(None, calls=_ONE), result("7")],
    "call beside a text": [user("a"), said("Let me look.", calls=_ONE), result("7")],
    "calls": [user("a"), said("", calls=_TWO), result("7"), result("é\n", 1)],
    "calls without content": [user("a"), said(None, calls=_TWO), result("7"), result("é\n", 1)],
    "calls, then an answer": [
        user("a"),
        said("", calls=_TWO),
        result("7"),
        result("8", 1),
        said("It is 7."),
        user("b"),
    ],
    "two rounds of calls": [
        user("a"),
        said("", calls=_ONE),
        result("7"),
        said("", calls=_TWO),
        result("8"),
        result("9", 1),
    ],
    "result and user": [user("a"), said("", calls=_ONE), result("7"), user("b")],
    "odd JSON": [user("a"), said("", calls={"look": '{ "q" :"\\u00e9",\n"n":1e2}'}), result("")],
}
"""Tools are declared where calls are made, and in some of `CASES`."""

CASES: Mapping[str, tuple[Dicts, Dicts | None]] = {
    **{name: (given, TOOLS if any(m["role"] == "tool" for m in given) else None) for name, given in HISTORIES.items()},
    "user, with tools": (HISTORIES["user"], TOOLS),
    "system, with a tool": (HISTORIES["system"], TOOLS[:1]),
    "several turns, with tools": (HISTORIES["several turns"], TOOLS),
}

_NONE = "transformers leaves out a content of None, and the template will not go without; prime writes none"
_CALLS = "the template writes calls only where content is None, which transformers leaves out; prime writes them always"
EXPLAINED: Mapping[str, Mapping[str, str]] = {
    "Qwen3 prime": {
        "spaces around": "prime encodes what is said by itself, as a model samples it, the template with its header",
        **dict.fromkeys(("call without content", "calls without content"), _NONE),
    },
    "DeepSeek-V3 prime": {
        "system amid": "the template moves system messages to the front; prime shows them as a user's, where they stand",
        **dict.fromkeys(("call without content", "calls without content"), _NONE),
        **dict.fromkeys(
            (name for name, given in HISTORIES.items() if "without" not in name and _has_calls(given)), _CALLS
        ),
    },
    "DeepSeek-V3 template": dict.fromkeys(
        ("call without content", "calls without content"),
        "the template asks whether content is None, which transformers leaves out; here it is handed through",
    ),
}
"""Where a backend's ids are not those of the template, and why, by backend and history."""
