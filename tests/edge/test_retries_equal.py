"""Equal calls of several clients, and the retry of one of them: it gets its own, or a sample of its own."""

import asyncio
from random import Random

import pytest

from tests.edge.house import HELLO, House, OpenHouse, Words, until, waiting
from tests.edge.marks import is_replayed, retry, turn_id

LONG = "A long answer to it. " * 2


async def test_a_retry_never_uses_up_the_failure_of_another_client(house: House) -> None:
    """One has failed twice, the other once: retry 2 is for the failure of a retry 1, and both are sampled."""
    house.faults.inject("error_503", times=3)
    for headers in ({}, {}, retry(1)):
        assert (await house.ask("s", headers=headers)).status == 503

    second = await house.ask("s", headers=retry(2))
    first = await house.ask("s", headers=retry(1))

    assert turn_id(first) != turn_id(second)
    assert not is_replayed(first)


async def test_a_retry_never_joins_what_another_client_left(open_house: OpenHouse, words: Words) -> None:
    """One has left twice, the other once, later; each comes back to its own."""
    house = await open_house(disconnect_grace_s=10, sim={"token_delay_s": 0.02})
    script = words.said(LONG)
    async with waiting(house, "s", HELLO, script):
        await until(lambda: len(house.journal) == 1)
        async with waiting(house, "s", HELLO, script):
            await until(lambda: len(house.journal) == 2)
        await asyncio.sleep(0.05)  # for the gateway to see that it left
        async with waiting(house, "s", HELLO, script, headers=retry(1)):
            await asyncio.sleep(0.05)
    await asyncio.sleep(0.05)

    asks = [house.ask("s", HELLO, script, headers=retry(count)) for count in (2, 1)]
    answers = await asyncio.gather(*asks)

    assert len({turn_id(answer) for answer in answers}) == len(house.journal) == 2


async def test_a_retry_is_not_answered_by_a_call_that_came_with_a_higher_count(house: House) -> None:
    """Its client cannot have sent that."""
    await house.ask("s", headers=retry(2))

    assert not is_replayed(await house.ask("s", headers=retry(1)))


@pytest.mark.parametrize("session", ["s", None])
async def test_a_call_that_somebody_waits_for_is_the_last_to_be_joined(
    open_house: OpenHouse, words: Words, session: str | None
) -> None:
    """Its client would have hung up before it tried again; the answer of the other may have been lost."""
    house = await open_house(sim={"token_delay_s": 0.01})
    script = words.said(LONG)
    answered = await house.ask(session, HELLO, script)
    async with waiting(house, session, HELLO, script) as other:
        await until(lambda: len(house.journal) == 2)
        retried = await house.ask(session, HELLO, script, headers=retry())
        assert turn_id(retried) == turn_id(answered) != turn_id(await other)


@pytest.mark.process
@pytest.mark.parametrize("agents", [2, 8])
async def test_agents_that_fail_and_try_again_never_share_a_sample(house: House, agents: int) -> None:
    """Every second call fails, and no answer is ever lost: what each gets was sampled for it."""
    choice = Random(agents)

    async def agent(session: str) -> str | None:
        await asyncio.sleep(choice.uniform(0, 0.05))
        for count in range(4):
            if choice.random() < 0.5:
                house.faults.inject("error_503")
            answer = await house.ask(session, headers=retry(count))
            if answer.status == 200:
                return turn_id(answer)
            await asyncio.sleep(choice.uniform(0.005, 0.04))
        return None

    for trial in range(10):
        got = await asyncio.gather(*(agent(f"s{trial}") for _ in range(agents)))
        answered = [turn for turn in got if turn is not None]
        assert len(set(answered)) == len(answered)
        house.faults.clear()
