"""What was odd about an answer stands on its turn, is counted, and is explained."""

import re
from pathlib import Path
from typing import get_args

import pytest

from gateway.core.types import Flag
from tests.edge.house import HELLO, IM_END, TOOLS, House, Json, Words
from tests.edge.streams import stream as streamed

PARSING = (Path(__file__).parents[2] / "docs" / "parsing.md").read_text()


async def answer(house: House, script: list[int], *, stream: bool) -> Json:
    """The choice that an engine's script makes, whole or joined."""
    if stream:
        return (await streamed(house, "s", HELLO, script, tools=TOOLS)).choice()
    choice: Json = (await house.ask("s", HELLO, script, tools=TOOLS)).body["choices"][0]
    return choice


async def flagged(house: House, flag: str) -> bool:
    """Whether the session's one turn has this flag and no other, and is counted by it."""
    (turn,) = await house.turns("s")
    counted = await house.metric("gateway_turn_flags_total")
    return turn["flags"] == [flag] and counted == 1 == await house.metric("gateway_turn_flags_total", flag=flag)


@pytest.mark.parametrize("stream", [False, True])
async def test_a_broken_call_is_text_flagged_and_counted(house: House, words: Words, stream: bool) -> None:
    """Arguments that are no object: the client reads what the model wrote."""
    call = '<tool_call>\n{"name": "weather", "arguments": null}\n</tool_call>'
    choice = await answer(house, [*words.ids(call), IM_END], stream=stream)

    assert (choice["message"]["content"], choice["finish_reason"]) == (call, "stop")
    assert "tool_calls" not in choice["message"]
    assert await flagged(house, "malformed_tool_call")


@pytest.mark.parametrize("stream", [False, True])
async def test_text_behind_a_call_is_delivered_and_the_difference_flagged(
    house: House, words: Words, stream: bool
) -> None:
    """The model's own parser drops it."""
    script = [*words.called("hm", "weather", {"city": "Oslo"})[:-1], *words.spelt("\nand so on"), IM_END]
    choice = await answer(house, script, stream=stream)

    assert choice["message"]["content"] == "and so on"
    assert [call["function"]["name"] for call in choice["message"]["tool_calls"]] == ["weather"]
    assert await flagged(house, "parse_differs")


async def test_an_ordinary_answer_has_none(house: House, words: Words) -> None:
    """A thought and a call."""
    await house.ask("s", HELLO, words.called("hm", "weather", {"city": "Oslo"}), tools=TOOLS)

    assert (await house.turns("s"))[0]["flags"] == []
    assert await house.metric("gateway_turn_flags_total") == 0


def test_every_flag_is_explained() -> None:
    """And none that there is not."""
    table = PARSING.partition("## Flags")[2].partition("\n## ")[0]

    assert set(re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)) == set(get_args(Flag))
