"""Calls that are left go on until the engine's first word, where an abort before it does harm."""

import asyncio

import pytest

from gateway.edge.engine import Engine
from gateway.sim import JOURNAL, create_sim
from tests.edge.house import House, OpenHouse, serving, until, waiting
from tests.edge.raw import payloads
from tests.edge.test_pause import admin, state


async def test_a_call_that_is_left_goes_on_until_its_first_event() -> None:
    """Then it is closed, and the engine stops."""
    sim = create_sim(first_token_delay_s=0.2, token_delay_s=0.05)
    async with serving(sim) as server:
        engine = Engine(str(server.make_url("")), abort_quiet_s=5)
        task = asyncio.ensure_future(payloads(engine))
        await until(lambda: sim[JOURNAL].running)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert task.cancelled()
        assert sim[JOURNAL].running == 1
        await until(lambda: sim[JOURNAL].running == 0)
        entry = sim[JOURNAL].entries[0]
        assert (len(entry.emitted), entry.disconnected) == (1, True)
        await engine.close()


async def test_a_call_that_is_left_is_not_kept_for_ever() -> None:
    """Neither beyond its time, nor beyond the end of the gateway."""
    sim = create_sim(first_token_delay_s=3600)
    async with serving(sim) as server:
        for quiet_s, ends_by_itself in ((0.05, True), (3600, False)):
            engine = Engine(str(server.make_url("")), abort_quiet_s=quiet_s)
            task = asyncio.ensure_future(payloads(engine))
            await until(lambda: sim[JOURNAL].running)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            if ends_by_itself:
                await until(lambda: sim[JOURNAL].running == 0)
            else:
                await asyncio.sleep(0.05)
                assert sim[JOURNAL].running == 1
            await engine.close()
            await until(lambda: sim[JOURNAL].running == 0)


async def test_a_call_of_which_something_was_heard_is_closed_at_once() -> None:
    """And one that nobody leaves is as any other."""
    sim = create_sim(token_delay_s=0.05)
    async with serving(sim) as server:
        engine = Engine(str(server.make_url("")), abort_quiet_s=3600)
        assert (await payloads(engine))[-1] == b"[DONE]"
        task = asyncio.ensure_future(payloads(engine))
        await until(lambda: len(sim[JOURNAL].entries) == 2 and sim[JOURNAL].entries[1].emitted)
        await asyncio.sleep(0.02)
        task.cancel()
        await until(lambda: sim[JOURNAL].running == 0)
        await engine.close()


@pytest.mark.parametrize("mode", ["drain", "cut"])
async def test_a_pause_waits_for_a_call_that_was_left(open_house: OpenHouse, mode: str) -> None:
    """Its engine samples on: by the weights of before, and into the prefix cache."""
    house = await open_house(abort_quiet_s=5, resume_attempts=5, sim={"first_token_delay_s": 0.4})
    async with waiting(house, "s", max_tokens=3) as call:
        await until(lambda: house.journal and house.sim[JOURNAL].running)
        if mode == "drain":
            call.cancel()
            await until(lambda: _nothing_in_flight(house))
        assert (await admin(house, "pause", mode=mode)).status == 200
        assert (len(house.journal), bool(house.journal[0].emitted), house.sim[JOURNAL].running) == (1, True, 0)
        await admin(house, "resume")


async def _nothing_in_flight(house: House) -> bool:
    return (await state(house))["in_flight"] == 0
