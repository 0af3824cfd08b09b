"""Bound answers through the whole gateway: what the engine is told, what the client gets, what the turn says."""

from collections.abc import Awaitable, Callable
from typing import Any

import orjson
import pytest

from gateway.render.demo import FOLDER, MODEL_NAME
from tests.edge.house import TOOLS, House, Json, OpenHouse

SHAPE = {
    "type": "json_schema",
    "json_schema": {
        "name": "plan",
        "schema": {"type": "object", "properties": {"city": {"enum": ["Paris", "Rome"]}}, "required": ["city"]},
    },
}
NAMED = {"type": "function", "function": {"name": "weather"}}
DEMO = {"model": MODEL_NAME, "model_name": MODEL_NAME}
Talking = Callable[..., Awaitable[House]]


@pytest.fixture
def talking(open_house: OpenHouse, tokenizer_folder: str) -> Talking:
    """Open a gateway whose engine talks by itself: as Qwen3, or as the demo's model."""

    async def open_one(*, version: str = "0.32.0", demo: bool = False) -> House:
        tokenizer = str(FOLDER) if demo else tokenizer_folder
        return await open_house(sim={"tokenizer": tokenizer, "version": version}, **(DEMO if demo else {}))

    return open_one


async def flags(house: House, session: str) -> list[str]:
    """The flags of a session's one turn."""
    (turn,) = await house.turns(session)
    return list(turn["flags"])


@pytest.mark.parametrize("demo", [False, True])
@pytest.mark.parametrize("choice", ["required", NAMED])
async def test_a_forced_call_is_delivered(talking: Talking, choice: Any, demo: bool) -> None:
    """As any call is; the turn says that the model did not choose it."""
    house = await talking(demo=demo)
    answer = await house.ask("s", tools=TOOLS, tool_choice=choice)

    (call,) = answer.message["tool_calls"]
    assert call["function"]["name"] == "weather"
    assert orjson.loads(call["function"]["arguments"]).keys() == {"city"}
    assert answer.message["content"] is None
    assert house.journal[0].body["reasoning_ended"] is True
    assert await flags(house, "s") == ["constrained"]


async def test_a_response_format_is_kept(talking: Talking) -> None:
    """By each of several answers."""
    house = await talking()
    answer = await house.ask("s", response_format=SHAPE, n=3)

    contents = [choice["message"]["content"] for choice in answer.body["choices"]]
    assert all(orjson.loads(content)["city"] in ("Paris", "Rome") for content in contents)
    assert [turn["flags"] for turn in await house.turns("s")] == [["constrained"]] * 3


async def test_a_free_answer_is_not_marked(talking: Talking) -> None:
    """Nor is its engine told anything."""
    house = await talking()
    await house.ask("s", tools=TOOLS, tool_choice="auto", response_format={"type": "text"})

    assert "reasoning_ended" not in house.journal[0].body
    assert await flags(house, "s") == []


@pytest.mark.parametrize("fields", [{"response_format": SHAPE}, {"tools": TOOLS, "tool_choice": "required"}])
async def test_an_engine_that_might_ignore_it_is_not_asked(talking: Talking, fields: Json) -> None:
    """The caller reads which version it takes; the same request unbound is answered."""
    house = await talking(version="0.31.0")
    answer = await house.ask("s", **fields)

    assert (answer.status, "need vLLM 0.32 or later" in answer.error["message"]) == (400, True)
    assert house.journal == []
    assert (await house.ask("s")).status == 200


async def test_a_grammar_that_the_engine_refuses_is_the_callers_fault(talking: Talking) -> None:
    """Its words are relayed; nothing is recorded."""
    house = await talking()
    answer = await house.ask("s", structured_outputs={"regex": "["})

    assert (answer.status, answer.error["code"]) == (400, "engine_refused")
    assert await house.turns("s") == []
