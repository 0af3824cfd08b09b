"""Which turns have an engine asked of what it returns logprobs, and which of them wait."""

import asyncio
from typing import Any

from tests.edge.house import Json, OpenHouse, probes, serving, until
from tests.edge.probing import PROCESSED, slow_sim


async def test_no_engine_is_asked_by_a_gateway_whose_turns_need_not_know(open_house: OpenHouse) -> None:
    """Not at its start, nor for turns whose logprobs are exact in either mode, or in none; nor when it is back."""
    house = await open_house(sim=PROCESSED)
    asked: list[tuple[Json, bool]] = [
        ({}, True),
        ({"temperature": 0}, False),
        ({"vllm_xargs": {"mine": 1}}, False),
        ({"temperature": 0.5, "vllm_xargs": {"mine": 1}}, False),
    ]
    for fields, _ in asked:
        assert (await house.ask("s", **fields)).status == 200
    house.faults.inject("cut", after=1)
    await house.ask("cut")
    assert (await house.ask("s")).status == 200

    told = [(turn["logprobs_mode"], turn["logprobs_exact"]) for turn in await house.turns("s")]
    assert told == [("untold", exact) for _, exact in [*asked, ({}, True)]]
    assert [entry for entry in probes(house.sim) if "logprobs" in str(entry.body)] == []


async def test_the_first_turn_that_hangs_on_it_has_its_engine_asked_and_does_not_wait(open_house: OpenHouse) -> None:
    """Its own logprobs are not known to be exact; those of turns taken when the engine has told are."""
    slow = asyncio.Event()

    async with serving(slow_sim(slow)) as server:
        house = await open_house(engine=(str(server.make_url("")),))
        await house.ask("early", temperature=0.5)
        slow.set()
        await until(lambda: _knows(house))
        await house.ask("late", temperature=0.5)
        told = [(turn["logprobs_mode"], turn["logprobs_exact"]) for turn in await house.turns("early")]
        assert told == [("untold", False)]
        told = [(turn["logprobs_mode"], turn["logprobs_exact"]) for turn in await house.turns("late")]
        assert told == [("processed", True)]
        await house.http.close()


async def _knows(house: Any) -> bool:
    """Whether the engine has told."""
    (engine,) = (await house.call("GET", "/admin/engines")).body["data"]
    return bool(engine["logprobs"] == "processed")
