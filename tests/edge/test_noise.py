"""Noise end to end: what changes around a history from turn to turn breaks no prefix."""

import pytest

from tests.edge.house import TOOLS, Json, OpenHouse, Words, extends, user


def billed(turn: int) -> str:
    """Claude Code's header, which says something else each time."""
    return f"x-anthropic-billing-header: cc_version=2.1.197.{turn:03x}; cc_entrypoint=cli;"


def as_parts(turn: int) -> list[Json]:
    """A block of its own before the instructions, and a mark for the cache that moves."""
    marked = {"cache_control": {"type": "ephemeral"}} if turn % 2 else {}
    blocks = [{"type": "text", "text": text} for text in (billed(turn), "You are careful.")]
    return [{"role": "system", "content": [blocks[0], {**blocks[1], **marked}]}]


def as_one_text(turn: int) -> list[Json]:
    """Blocks joined by a proxy on the way."""
    return [{"role": "system", "content": f"{billed(turn)}\nYou are careful."}]


def as_a_message(turn: int) -> list[Json]:
    """A message of its own, that is sometimes not there."""
    alone = [{"role": "system", "content": billed(turn)}] if turn % 3 else []
    return [*alone, {"role": "developer", "content": "You are careful."}]


@pytest.mark.parametrize("system", [as_parts, as_one_text, as_a_message])
async def test_a_session_whose_billing_header_changes_every_turn_is_bridged_every_turn(
    open_house: OpenHouse, words: Words, system
) -> None:
    """And the model never sees it."""
    house = await open_house()
    history: list[Json] = []
    for turn in range(5):
        history.append(user(f"Question {turn}"))
        tool = {**TOOLS[0], "cache_control": {"type": "ephemeral"}} if turn % 2 else TOOLS[0]
        answer = await house.ask("s", [*system(turn), *history], words.said(f"Answer {turn}"), tools=[tool])
        assert answer.status == 200
        history.append(answer.message)

    assert [turn["how"] for turn in await house.turns("s")] == ["rendered", *["bridged"] * 4]
    assert len(await house.rows("s")) == 1
    assert all(extends(later, earlier) for earlier, later in zip(house.prompts, house.prompts[1:], strict=False))
    assert "billing" not in words.text(house.prompts[-1])
    assert words.text(house.prompts[-1]).count("You are careful.") == 1


async def test_without_the_list_such_a_session_breaks_at_every_turn(open_house: OpenHouse, words: Words) -> None:
    """Which is why it is the default."""
    house = await open_house(noise_prefix=())
    history: list[Json] = []
    for turn in range(3):
        history.append(user(f"Question {turn}"))
        answer = await house.ask("s", [*as_parts(turn), *history], words.said(f"Answer {turn}"))
        history.append(answer.message)

    told = [(turn["how"], turn["reason"]) for turn in await house.turns("s")]
    assert told == [("rendered", "first_turn"), *[("rendered", "system_changed")] * 2]


async def test_a_request_of_noise_alone_is_refused(open_house: OpenHouse) -> None:
    """There is nothing to answer."""
    house = await open_house()
    answer = await house.ask("s", as_a_message(1)[:1])

    assert answer.status == 400
    assert answer.error["param"] == "messages"
