"""Stop strings, end to end: the client sees the text before them, the trainer every id up to them."""

import asyncio
from typing import Any

import pytest

from tests.edge.house import HELLO, IM_END, TOOLS, Answer, House, Json, Words, until, user, waiting


async def stopped(house: House, script: list[int], stop: object, **fields: Any) -> Answer:
    """The answer of an engine that samples `script`, however far that goes beyond `stop`."""
    answer = await house.ask("s", HELLO, script, stop=stop, **fields)
    assert answer.status == 200, answer.body
    return answer


async def sampled(house: House) -> list[int]:
    """The ids that are trained on."""
    (row,) = await house.rows("s")
    return [token_id for token_id, mask in zip(row["token_ids"], row["loss_mask"], strict=True) if mask]


async def test_the_text_ends_before_the_stop_and_the_ids_with_it(house: House, words: Words) -> None:
    """A stop over several ids is kept to its last id; what the engine sampled beyond is discarded."""
    script = words.said("One. END Two.")

    answer = await stopped(house, script, ["END"])

    assert answer.message["content"].rstrip() == "One."
    assert answer.body["choices"][0]["finish_reason"] == "stop"
    assert await sampled(house) == words.spelt("One. END")
    assert answer.body["usage"]["completion_tokens"] == len(words.spelt("One. END"))


async def test_what_was_sampled_beyond_is_counted(house: House, words: Words) -> None:
    """On the turn and among the metrics: nothing that an engine did goes without a word."""
    script = words.said("One. END Two.")
    await stopped(house, script, ["END"])

    (turn,) = await house.turns("s")
    beyond = len(script) - len(words.spelt("One. END"))
    assert turn["overshoot_tokens"] == beyond
    assert await house.metric("gateway_tokens_total", type="overshoot") == beyond


async def test_a_client_that_leaves_when_the_stop_is_there_leaves_the_ids_up_to_it(house: House, words: Words) -> None:
    """What comes after a stop is nobody's answer, whether the engine had time to end there or not."""
    script = words.said("One. END Two. " * 3)
    house.faults.inject("stall", after=len(script) - 1)
    async with waiting(house, "s", HELLO, script, stop=["END"]):
        await until(lambda: house.journal and len(house.journal[0].emitted) == len(script) - 1)
        await asyncio.sleep(0.5)  # until it has been read, on a machine that others use, too

    async def recorded() -> bool:
        return await house.metric("gateway_turns_total") == 1

    await until(recorded)
    (turn,) = (await house.call("GET", "/sessions/s/turns?ids=true")).body["data"]
    assert (turn["status"], turn["completion_ids"]) == ("aborted", words.spelt("One. END"))
    assert 0 < turn["overshoot_tokens"] <= len(script) - 1 - len(turn["completion_ids"])


async def test_a_stop_within_one_id_keeps_that_id(house: House, words: Words) -> None:
    """Its text is cut for the client; the id was sampled whole."""
    script = [*words.ids("Hello"), *words.ids(" world"), *words.ids(" again"), IM_END]
    assert len(script) == 4

    answer = await stopped(house, script, "wor")

    assert answer.message["content"].rstrip() == "Hello"
    assert await sampled(house) == script[:2]


async def test_a_stop_may_begin_within_one_id_and_end_within_another(house: House, words: Words) -> None:
    """The ids of both are kept."""
    script = [*words.ids("Hello"), *words.ids(" world"), *words.ids(" again"), IM_END]

    answer = await stopped(house, script, ["ld ag"])

    assert answer.message["content"] == "Hello wor"
    assert await sampled(house) == script[:3]


async def test_the_first_stop_of_several_counts(house: House, words: Words) -> None:
    """The first to be completed, not the first in the list."""
    answer = await stopped(house, words.said("a b c d"), ["d", "b", "zzz"])

    assert answer.message["content"].rstrip() == "a"
    assert await sampled(house) == words.spelt("a b")


async def test_after_a_cut_within_an_id_the_next_prompt_is_rendered(house: House, words: Words) -> None:
    """That id says more than the stop: the model sampled what nobody will see, and the next turn says so."""
    script = [*words.ids("Hello"), *words.ids(" world"), IM_END]
    answer = await stopped(house, script, ["wor"])

    await house.ask("s", [*HELLO, answer.message, user("Go on.")], words.said("Yes."))

    first, second = await house.turns("s")
    assert "stop_cut" in first["flags"]
    assert (second["parent_id"], second["how"], second["reason"]) == (first["turn_id"], "rendered", "stop_cut")
    assert "world" not in words.text(house.prompts[1])
    assert len(await house.rows("s")) == 2


async def test_after_a_stop_that_ends_with_its_id_the_next_prompt_is_bridged(house: House, words: Words) -> None:
    """Agents that use stop strings stay in one row: the stop was sampled, and nothing beyond it."""
    answer = await stopped(house, words.said("One. END Two."), ["END"])

    await house.ask("s", [*HELLO, answer.message, user("Go on.")], words.said("Yes."))

    first, second = await house.turns("s")
    assert first["flags"] == []
    assert (second["parent_id"], second["how"]) == (first["turn_id"], "bridged")
    assert len(await house.rows("s")) == 1


async def test_a_stop_that_is_shown_whole_cuts_nothing(house: House, words: Words) -> None:
    """With `include_stop_str_in_output` the client reads all that was kept, and the next prompt is bridged."""
    answer = await stopped(house, words.said("One. END Two."), ["END"], include_stop_str_in_output=True)

    assert answer.message["content"] == "One. END"
    assert await sampled(house) == words.spelt("One. END")
    await house.ask("s", [*HELLO, answer.message, user("Go on.")], words.said("Yes."))
    first, second = await house.turns("s")
    assert "stop_cut" not in first["flags"]
    assert (second["parent_id"], second["how"]) == (first["turn_id"], "bridged")


async def test_the_engine_looks_for_the_same_stops(house: House, words: Words) -> None:
    """It is told of them, and how to treat them, so that it samples no further than need be."""
    await stopped(house, words.said("One."), ["END", "FIN"], include_stop_str_in_output=True)

    (params,) = house.params
    assert params["stop"] == ["END", "FIN"]
    assert params["include_stop_str_in_output"] is True
    assert params["skip_special_tokens"] is False


async def test_a_stop_that_is_never_said_changes_nothing(house: House, words: Words) -> None:
    """The answer is whole, and its end is trained on."""
    answer = await stopped(house, words.said("One."), ["END"])

    assert answer.message["content"] == "One."
    assert await sampled(house) == words.said("One.")


@pytest.mark.parametrize("text", ["naïve 温度 END", "👍👍 END"])
async def test_characters_of_many_ids_do_not_confuse_the_cut(house: House, words: Words, text: str) -> None:
    """Where a character takes several ids, the cut is still at the stop."""
    script = words.said(f"{text} beyond")

    answer = await stopped(house, script, ["END"])

    assert answer.message["content"].rstrip() == text.removesuffix("END").rstrip()
    assert await sampled(house) == words.spelt(text)


async def test_a_tool_call_before_the_stop_is_still_called(house: House, words: Words) -> None:
    """A stop after a call cuts the text, not the call."""
    called = words.called("Think.", "weather", {"city": "Zürich"})[:-1]
    script = [*called, *words.spelt("\nDONE and more"), IM_END]

    answer = await stopped(house, script, ["DONE"], tools=TOOLS)

    calls: list[Json] = answer.message["tool_calls"]
    assert [call["function"]["name"] for call in calls] == ["weather"]
    assert await sampled(house) == [*called, *words.spelt("\nDONE")]
