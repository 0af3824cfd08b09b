"""How a turn ended: by the model, by a bound, or by somebody else."""

import asyncio

import pytest

from tests.edge.house import HELLO, House, Json, OpenHouse, Words, until, waiting
from tests.edge.keeping import KeepingStore

LONG = "A long answer. " * 50


async def ends(house: House, session: str = "s") -> list[tuple[str, str]]:
    """Status and end of each turn."""
    return [(turn["status"], turn["ended_by"]) for turn in await house.turns(session)]


async def under_way(house: House, n: int = 1) -> None:
    """Wait until so many answers have got somewhere, and the gateway has heard of it."""
    await until(lambda: len(house.journal) == n and all(len(entry.emitted) > 12 for entry in house.journal))


async def test_the_model_ends_its_turn_or_calls_a_tool(house: House, words: Words) -> None:
    """A stop string is an end of its own kind, and no cut."""
    await house.ask("s", HELLO, words.said("Hi."))
    await house.ask("s", HELLO, words.said("Hi there, you."), stop=["there"])
    await house.ask("s", HELLO, words.called("Why?", "weather", {"city": "Bern"}))

    assert await ends(house) == [("complete", "stop"), ("complete", "stop"), ("complete", "tool_calls")]


@pytest.mark.parametrize(
    ("asked", "budget", "bound"),
    [
        ({"max_tokens": 5}, {}, "max_tokens"),
        ({"max_tokens": 5}, {"max_completion_tokens": 5}, "max_tokens"),
        ({"max_tokens": 9}, {"max_completion_tokens": 5}, "budget"),
        ({}, {"max_context_tokens": 60}, "budget"),
        ({}, {"max_context_tokens": 10_000}, "context"),
    ],
)
async def test_a_cut_says_which_bound_was_the_tight_one(
    open_house: OpenHouse, words: Words, asked: Json, budget: Json, bound: str
) -> None:
    """The agent's, the session's or the model's."""
    house = await open_house(sim={"max_model_len": 100})
    await house.send("POST", "/sessions", session_id="s", budget=budget)
    await house.ask("s", HELLO, words.said(LONG), **asked)

    assert await ends(house) == [("complete", bound)]


async def test_a_client_that_leaves_is_gone(open_house: OpenHouse, words: Words) -> None:
    """All of its answers end so."""
    house = await open_house(sim={"token_delay_s": 0.005})
    async with waiting(house, "s", HELLO, words.said(LONG), n=2):
        await under_way(house, 2)
    await house.idle()

    assert await ends(house) == [("aborted", "client_gone")] * 2


async def test_an_engine_that_fails_is_infrastructure_and_its_siblings_are_cancelled(
    open_house: OpenHouse, words: Words
) -> None:
    """The first failure ends the call."""
    house = await open_house(sim={"token_delay_s": 0.005}, stream_interval_tokens=1)
    house.faults.inject(kind="cut", after=6)
    await house.ask("s", HELLO, words.said(LONG), n=2)
    await house.idle()

    assert sorted(await ends(house)) == [("aborted", "cancelled"), ("aborted", "infra")]


async def test_a_deleted_session_cancels_its_turns(open_house: OpenHouse, words: Words) -> None:
    """Though its client still waits."""
    store = KeepingStore()
    house = await open_house(sim={"token_delay_s": 0.005}, store=store)
    async with waiting(house, "s", HELLO, words.said(LONG)) as answer:
        await under_way(house)
        await asyncio.gather(house.send("DELETE", "/sessions/s"), answer)

    assert [turn.ended_by for turn in store.turns] == ["cancelled"]


async def test_a_gateway_that_stops_cancels_its_turns(open_house: OpenHouse, words: Words) -> None:
    """Their clients are told so, and had not left."""
    store = KeepingStore()
    house = await open_house(sim={"token_delay_s": 0.005}, store=store)
    async with waiting(house, "s", HELLO, words.said(LONG)) as answer:
        await under_way(house)
        assert house.http.app is not None
        await house.http.app.shutdown()
        await asyncio.wait([answer])

    assert [turn.ended_by for turn in store.turns] == ["cancelled"]
