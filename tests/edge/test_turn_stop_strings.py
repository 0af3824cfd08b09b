"""Texts that end a model's turn because its renderer says so, end to end."""

from typing import Any

import pytest

from gateway.render.registry import Renderers
from tests.edge.house import HELLO, IM_END, House, OpenHouse, Words, until, user, waiting

ENDS = "\n\nUser:"


class Ended:
    """The usual renderer, of a model that also ends its turns in letters."""

    stop_strings = (ENDS,)

    def __init__(self, renderer: Any) -> None:
        self.render_ids = renderer.render_ids
        self.parse_response = renderer.parse_response
        self.get_stop_token_ids = renderer.get_stop_token_ids
        self.bridge_to_next_turn = renderer.bridge_to_next_turn


@pytest.fixture
async def ended(open_house: OpenHouse, renderers: Renderers) -> House:
    """A gateway with such a renderer."""
    return await open_house(renderer=Ended(renderers.get({}).renderer))


async def test_an_answer_ends_at_the_renderers_text_and_the_client_does_not_see_it(ended: House, words: Words) -> None:
    """The trainer has its ids: they were sampled. What the engine sampled beyond is discarded."""
    answer = await ended.ask("s", HELLO, words.said(f"One.{ENDS} Two."))

    assert answer.message["content"] == "One."
    assert answer.body["choices"][0]["finish_reason"] == "stop"
    (row,) = await ended.rows("s")
    trained = [token_id for token_id, mask in zip(row["token_ids"], row["loss_mask"], strict=True) if mask]
    assert trained == words.spelt(f"One.{ENDS}")


async def test_the_engine_is_told_of_it_beside_the_clients_own(ended: House, words: Words) -> None:
    """The turn says so too; under `ignore_eos` it is left out, as the stop ids are."""
    await ended.ask("s", HELLO, words.said("One."), stop=["END"])
    await ended.ask("t", HELLO, words.said("One."), ignore_eos=True)

    assert [params.get("stop") for params in ended.params] == [["END", ENDS], None]
    (turn,) = await ended.turns("s")
    assert turn["sampling"]["stop"] == ["END", ENDS]


async def test_after_it_the_next_prompt_is_built_from_what_was_sampled_or_in_full(ended: House, words: Words) -> None:
    """Never from something else: whatever the renderer makes of such an end, the next row begins or goes on."""
    answer = await ended.ask("s", HELLO, words.said(f"One.{ENDS}"))
    await ended.ask("s", [*HELLO, answer.message, user("And?")], words.said("Two."))

    first, second = await ended.turns("s")
    sampled = words.spelt(f"One.{ENDS}")
    assert first["completion_tokens"] == len(sampled)
    told, after = ended.prompts
    assert (second["how"] == "bridged") == (after[: len(told) + len(sampled)] == told + sampled)


async def test_who_leaves_when_it_is_there_leaves_the_ids_up_to_it(ended: House, words: Words) -> None:
    """An aborted turn ends there as well."""
    script = words.said(f"One.{ENDS} Two. " * 3)
    ended.faults.inject("stall", after=len(script) - 1)
    async with waiting(ended, "s", HELLO, script):
        await until(lambda: ended.journal and len(ended.journal[0].emitted) == len(script) - 1)

    async def recorded() -> bool:
        return await ended.metric("gateway_turns_total") == 1

    await until(recorded)
    (turn,) = (await ended.call("GET", "/sessions/s/turns?ids=true")).body["data"]
    assert turn["status"] == "aborted"
    assert turn["completion_ids"] == words.spelt(f"One.{ENDS}")[: len(turn["completion_ids"])]
    assert IM_END not in turn["completion_ids"]
