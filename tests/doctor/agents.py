"""Small harnesses over plain HTTP, each with a habit: ``agents.py HABIT`` asks three questions and ends.

They read the environment that `gateway doctor` gives, as agents do, and nothing else.
"""

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import ProxyHandler, Request, build_opener

Json = dict[str, Any]

BASE_URL = os.environ.get("OPENAI_BASE_URL", "")
MODEL = os.environ.get("OPENAI_MODEL", "")
QUESTIONS = ("How is the weather in Bern?", "And in Chur?", "Thanks!")
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": name,
            "description": "What is known of a city",
            "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
        },
    }
    for name in ("weather", "delete_city")
]
SYSTEM = {"role": "system", "content": "You are a weather service."}

_http = build_opener(ProxyHandler({}))


def post(path: str, body: Json, **headers: str) -> Json:
    """What the gateway answers."""
    asked = Request(BASE_URL + path, json.dumps(body).encode(), {"Content-Type": "application/json", **headers})  # http
    with _http.open(asked, timeout=30) as answer:
        told: Json = json.load(answer)
        return told


def ask(messages: list[Json], tools: list[Json] | None = None) -> Json:
    """The model's answer to a history, as it goes into that."""
    tools = TOOLS if tools is None else tools
    answer = post("/chat/completions", {"model": MODEL, "messages": messages, **({"tools": tools} if tools else {})})
    message: Json = answer["choices"][0]["message"]
    return {name: value for name, value in message.items() if value is not None}


def converse(
    habit: Callable[[list[Json], int], list[Json]] = lambda messages, _number: messages,
    tools: Callable[[int], list[Json] | None] = lambda _number: None,
) -> None:
    """Three questions with what the tools say; `habit` may change the history before each turn, `tools` what is offered."""
    messages: list[Json] = [SYSTEM]
    number = 0
    for question in QUESTIONS:
        messages.append({"role": "user", "content": question})
        while True:
            number += 1
            messages = habit(messages, number)
            answer = ask(messages, tools(number))
            messages.append(answer)
            if "tool_calls" not in answer:
                break
            messages += [
                {"role": "tool", "tool_call_id": call["id"], "content": "sunny"} for call in answer["tool_calls"]
            ]


def rewrites_user(messages: list[Json], number: int) -> list[Json]:
    """From the sixth turn on, the second question says something else."""
    questions = [message for message in messages if message["role"] == "user"]
    if number == 6:
        questions[1]["content"] += " (be brief)"
    return messages


def drops_reasoning(messages: list[Json], _number: int) -> list[Json]:
    """As most clients do."""
    return [{name: value for name, value in one.items() if "reasoning" not in name} for one in messages]


def drops_an_answer(messages: list[Json], number: int) -> list[Json]:
    """The answer to the first question is forgotten before the second one is answered."""
    return [*messages[:-2], messages[-1]] if number == 5 else messages


def makes_a_side_call(messages: list[Json], number: int) -> list[Json]:
    """A title, before the main line begins; later a summary of the history under another system prompt."""
    if number == 1:
        ask([{"role": "system", "content": "You write titles."}, {"role": "user", "content": QUESTIONS[0]}], [])
    if number == 5:
        ask([{"role": "system", "content": "You sum up."}, *messages[1:]])
    return messages


def is_stateless(messages: list[Json], _number: int) -> list[Json]:
    """Everything that was said goes into one message of a user's."""
    told = " / ".join(str(message.get("content", "")) for message in messages if message["role"] != "system")
    return [SYSTEM, {"role": "user", "content": told}]


def changes_tools(number: int) -> list[Json] | None:
    """From the third turn on there is one tool less."""
    return TOOLS[:1] if number >= 3 else None


def speaks_another_dialect() -> None:
    """Another dialect."""
    try:
        post("/nothing", {"model": MODEL, "input": "hello"})
    except HTTPError:
        return


def retries() -> None:
    """The one call that it makes, as SDKs do that have lost its answer."""
    body = {"model": MODEL, "messages": [SYSTEM, {"role": "user", "content": "Hello"}]}
    post("/chat/completions", body)
    post("/chat/completions", body, **{"x-stainless-retry-count": "1"})


def asks_once() -> None:
    """And says what it heard."""
    sys.stdout.write(ask([SYSTEM, {"role": "user", "content": "Hello"}], [])["content"])


def crashes() -> None:
    """After its first answer."""
    ask([SYSTEM, {"role": "user", "content": QUESTIONS[0]}])
    sys.exit(3)


def fails_at_once() -> None:
    """As one whose packages are not there."""
    sys.exit("No module named 'openai'")


def lingers() -> None:
    """After a conversation, until it is ended; it says in a file that it has begun to."""
    converse()
    Path(os.environ["LINGERS"]).touch()
    time.sleep(600)


HABITS: dict[str, Callable[[], None]] = {
    "keeps": converse,
    "rewrites_user": lambda: converse(rewrites_user),
    "changes_tools": lambda: converse(tools=changes_tools),
    "drops_reasoning": lambda: converse(drops_reasoning),
    "drops_an_answer": lambda: converse(drops_an_answer),
    "makes_a_side_call": lambda: converse(makes_a_side_call),
    "is_stateless": lambda: converse(is_stateless),
    "asks_once": asks_once,
    "retries": retries,
    "makes_no_call": lambda: None,
    "speaks_another_dialect": speaks_another_dialect,
    "crashes": crashes,
    "fails_at_once": fails_at_once,
    "lingers": lingers,
}

if __name__ == "__main__":
    HABITS[sys.argv[1]]()
