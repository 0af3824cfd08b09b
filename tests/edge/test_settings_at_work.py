"""What a setting is set to is what a gateway does: bounds of the pool, leases of pauses."""

import asyncio

from tests.edge.house import HELLO, House, OpenHouse, Words, until, user, waiting

SLOW = {"first_token_delay_s": 0.3}
OTHER = [user("Something else, which is in nobody's cache.")]


async def _waits(house: House, turns: int = 1) -> bool:
    return await house.metric("gateway_queue_turns") == turns


async def test_as_many_turns_go_to_a_rank_and_wait_for_it_as_may(open_house: OpenHouse, words: Words) -> None:
    """`--rank-turns` and `--queue-turns`: one beyond both is refused."""
    house = await open_house(sim=SLOW, rank_turns=1, queue_turns=1)
    script = words.said("Yes.")
    async with waiting(house, "a", HELLO, script) as first:
        await until(lambda: house.journal)
        async with waiting(house, "b", HELLO, script) as second:
            await until(lambda: _waits(house))
            refused = await house.ask("c", HELLO, script)
            assert (refused.status, len(house.journal)) == (503, 1)
            assert "--queue-turns" in refused.error["message"]
            assert [(await call).status for call in (first, second)] == [200, 200]


async def test_nobody_waits_for_longer_than_may_be(open_house: OpenHouse, words: Words) -> None:
    """`--queue-wait-s`."""
    house = await open_house(sim={"token_delay_s": 1}, rank_turns=1, queue_wait_s=0.1)
    async with waiting(house, "a", HELLO, words.said("Yes.")):
        await until(lambda: house.journal)
        refused = await house.ask("b", HELLO, words.said("Yes."))
        assert (refused.status, refused.headers.get("Retry-After") is None) == (503, False)
        assert "within 0.1 s" in refused.error["message"]


async def test_a_rank_is_given_no_more_to_prefill_than_may_be(open_house: OpenHouse, words: Words) -> None:
    """`--rank-prefill-tokens`: the second goes when the first is heard of."""
    house = await open_house(sim=SLOW, rank_prefill_tokens=1)
    async with waiting(house, "a", HELLO, words.said("Yes.")) as first:
        await until(lambda: house.journal)
        async with waiting(house, "b", OTHER, words.said("No.")) as second:
            await until(lambda: _waits(house))
            assert len(house.journal) == 1
            assert [(await call).status for call in (first, second)] == [200, 200]


async def test_a_new_session_waits_until_others_leave_room_or_have_been_idle_for_long(
    open_house: OpenHouse, words: Words
) -> None:
    """`--resident-share` and `--resident-idle-s`; the first goes on meanwhile."""
    house = await open_house(sim={"block_size": 16, "cache_blocks": 2}, resident_share=0.5, resident_idle_s=0.5)
    script = words.said("Yes.")
    assert (await house.ask("old", HELLO, script)).status == 200
    async with waiting(house, "new", OTHER, script) as call:
        await until(lambda: _waits(house))
        assert (await house.ask("old", HELLO, script)).status == 200
        assert not call.done()
        assert (await call).status == 200


async def test_a_pause_that_says_nothing_of_its_lease_has_the_usual_one(open_house: OpenHouse, words: Words) -> None:
    """`--pause-lease-s`: then turns go on."""
    house = await open_house(pause_lease_s=0.3)
    paused = await house.send("POST", "/admin/pause", mode="hold")
    assert 0 < paused.body["paused"]["lease_left_s"] <= 0.3
    async with waiting(house, "s", HELLO, words.said("Yes.")) as call:
        await asyncio.sleep(0.1)
        assert not house.journal
        assert (await call).status == 200
