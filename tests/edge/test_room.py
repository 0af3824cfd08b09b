"""Who may go where, while others wait before them."""

import asyncio

import pytest

from tests.edge.pooling import Known, Pool, leased, pooled, settle


async def filled(pool: Pool, tokens: int, capacity_tokens: int = 1000) -> dict[str, str]:
    """Each rank has one idle session of so many tokens; its name by that of the rank."""
    ranks = pool.backends.ranks
    for rank in ranks:
        rank.capacity_tokens = capacity_tokens
    calls = [pool.call(f"old{at}", tokens, new_session=True) for at in range(len(ranks))]
    await settle()
    return {await call.end(tokens): call.affinity.session_id for call in calls}


async def test_a_new_session_without_room_keeps_its_own_rank_free_and_no_other() -> None:
    """What is smaller goes elsewhere, and not where it waits."""
    async with pooled(Known("a"), Known("b"), resident_share=0.5) as pool:
        old = await filled(pool, 300)
        large = pool.call("large", 400, new_session=True)
        await settle()
        assert leased(large) == [False]
        small = [pool.call(f"s{at}", 20, new_session=True) for at in range(20)]
        await settle()
        assert sum(leased(*small)) == 10
        (home,) = {call.rank for call in small if call.rank}
        assert home is not None
        (other,) = old.keys() - {home}
        pool.backends.forget(pool.session(old[other]))
        await settle()
        assert large.rank == other


async def test_a_new_session_that_needs_a_rank_of_its_own_gets_the_first_that_empties() -> None:
    """One rank is kept free for all such, so that others go on; one is let in after the other."""
    async with pooled(Known("a"), Known("b"), Known("c"), resident_share=0.5) as pool:
        old = await filled(pool, 100)
        huge = [pool.call(f"huge{at}", 600, new_session=True) for at in range(9)]
        small = [pool.call(f"s{at}", 100, new_session=True) for at in range(9)]
        await settle()
        assert sum(leased(*huge)) == 0
        assert sum(leased(*small)) == 8
        kept = old.keys() - {call.rank for call in small}
        pool.backends.forget(pool.session(old[min(kept)]))
        await settle()
        assert [call.rank for call in huge if call.rank] == [*kept]


@pytest.mark.parametrize("leaves", ["removed", "drained"])
async def test_who_waits_for_a_cache_is_never_sent_where_no_turns_are_taken(leaves: str) -> None:
    """Though its session has a rank, on which its first turn came to nothing, and there are others."""
    async with pooled(Known("a"), Known("b"), resident_share=0.5) as pool:
        backends = pool.backends
        first = pool.call("new", new_session=True)
        await settle()
        home = first.rank
        await first.cancel()
        old = await filled(pool, 900)
        again = pool.call("new", 10, new_session=True)
        await settle()
        assert leased(again) == [False]
        other = next(rank for rank in backends.ranks if rank.name != home)
        if leaves == "removed":
            backends.remove(other.engine)
        else:
            backends.drain(other, draining=True)
        backends.forget(pool.session(old[other.name]))
        await settle()
        assert leased(again) == [False]
        assert home is not None
        backends.forget(pool.session(old[home]))
        await settle()
        assert again.rank == home
        assert await pool.call("unrelated").end() == home


async def test_a_rank_that_leaves_or_comes_back_holds_nobody_up() -> None:
    """However many wait: those who had waited for it are sent elsewhere, and others keep their places."""
    engines = [Known(f"http://e{at}#dp=8") for at in range(2)]
    async with pooled(*engines, rank_turns=1, queue_turns=9999) as pool:
        calls = [pool.call(f"s{at}", 10) for at in range(2000)]
        await settle()
        rank = pool.backends.ranks[3]
        begun_s = asyncio.get_running_loop().time()
        for draining in (True, False, True):
            pool.backends.drain(rank, draining=draining)
        assert asyncio.get_running_loop().time() - begun_s < 0.5
        assert pool.backends.counts(rank).waiting == 0
        assert sum(pool.backends.counts(one).waiting for one in pool.backends.ranks) == 2000 - 16
        assert sum(leased(*calls)) == 16


async def test_new_sessions_that_are_too_large_to_share_a_rank_cost_nothing_while_they_wait() -> None:
    """However many there are: only the first of them is looked at, and small ones behind them go."""
    engines = [Known(f"http://e{at}#dp=8") for at in range(4)]
    async with pooled(*engines, resident_share=0.9) as pool:
        await filled(pool, 800)
        begun_s = asyncio.get_running_loop().time()
        huge = [pool.call(f"huge{at}", 950, new_session=True) for at in range(600)]
        small = pool.call("small", 10, new_session=True)
        await settle()
        for _ in range(100):
            pool.backends.changed()
        assert asyncio.get_running_loop().time() - begun_s < 2
        assert sum(leased(*huge)) == 0
        assert leased(small) == [True]
