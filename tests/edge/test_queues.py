"""Who waits for which rank, and who is next."""

import asyncio

import pytest

from gateway.errors import EngineUnavailable
from tests.edge.house import until
from tests.edge.pooling import Known, leased, pooled, settle


async def test_a_full_rank_is_waited_for_and_given_in_order() -> None:
    """Each session has one before any has two; whoever leaves the line is not missed."""
    async with pooled(Known("a"), rank_turns=1) as pool:
        first = pool.call("s")
        await settle()
        waiting = [pool.call(session) for session in ("s", "s", "t", "u")]
        await settle()
        assert leased(first, *waiting) == [True, False, False, False, False]
        await first.end()
        await settle()
        assert leased(*waiting) == [True, False, False, False]
        await waiting[3].cancel()
        await waiting[0].cancel()
        await settle()
        assert leased(*waiting) == [True, True, False, False]
        await waiting[1].end()
        await settle()
        assert leased(*waiting)[2]


async def test_a_busy_session_waits_for_those_with_less_in_flight() -> None:
    """Also where it came first."""
    async with pooled(Known("a"), rank_turns=3) as pool:
        busy = [pool.call("s") for _ in range(4)]
        await settle()
        other = pool.call("t")
        await settle()
        assert leased(*busy, other) == [True, True, True, False, False]
        await busy[0].end()
        await settle()
        assert leased(busy[3], other) == [False, True]


async def test_a_rank_is_given_so_many_tokens_to_prefill_at_once() -> None:
    """A longer prompt goes alone, and is not overtaken for ever by shorter ones; what was heard is prefilled."""
    async with pooled(Known("a"), rank_prefill_tokens=100) as pool:
        one, two, long, short = (pool.call(name, tokens) for name, tokens in zip("abcd", (60, 40, 300, 1), strict=True))
        await settle()
        assert leased(one, two, long, short) == [True, True, False, False]
        assert one.lease is not None
        assert two.lease is not None
        one.lease.heard()
        one.lease.heard()
        await settle()
        assert leased(long, short) == [False, False]
        two.lease.heard()
        await settle()
        assert leased(long, short) == [True, False]
        assert long.lease is not None
        long.lease.heard()
        await settle()
        assert leased(short) == [True]


async def test_what_is_cached_is_not_prefilled_but_after_a_pause_it_is() -> None:
    """An engine may have thrown its caches away with the old weights."""
    async with pooled(Known("a"), rank_prefill_tokens=100) as pool:
        for name in "st":
            await pool.call(name, 90).end(100)
        again = [pool.call(name, 110) for name in "st"]
        await settle()
        assert leased(*again) == [True, True]
        for call in again:
            await call.cancel()
        pool.backends.gate.set("new_sessions")
        pool.backends.gate.set(None)
        again = [pool.call(name, 110) for name in "st"]
        await settle()
        assert leased(*again) == [True, True]
        for call in again:
            await call.cancel()

        pool.backends.gate.set("all")
        pool.backends.gate.set(None)
        again = [pool.call(name, 110) for name in "st"]
        await settle()
        assert leased(*again) == [True, False]


async def test_a_pause_holds_and_the_shortest_go_first() -> None:
    """Who comes later goes last; nobody waits for the line's sake meanwhile, however long the pause is."""
    async with pooled(Known("a"), rank_turns=1, queue_wait_s=0.05) as pool:
        pool.backends.gate.set("all")
        calls = [pool.call(str(at), remaining_tokens=left) for at, left in enumerate((500, 10, 90))]
        await asyncio.sleep(0.1)
        assert leased(*calls) == [False, False, False]
        assert pool.counted("gateway_phase_seconds_count", phase="queue") == 0
        pool.backends.gate.set(None)
        late = pool.call("late", remaining_tokens=1)
        for expected in (calls[1], calls[2], calls[0], late):
            await settle()
            assert leased(expected) == [True]
            await expected.end()


async def test_new_sessions_alone_may_be_held() -> None:
    """Those that have turns go on, past who waits; what waited for a rank is held, too."""
    async with pooled(Known("a"), rank_turns=1) as pool:
        running = pool.call("s")
        queued = pool.call("t", new_session=True)
        pool.backends.gate.set("new_sessions")
        old = pool.call("u")
        await running.end()
        await settle()
        assert leased(queued, old) == [False, True]
        await old.end()
        await settle()
        assert leased(queued) == [False]
        pool.backends.gate.set(None)
        await settle()
        assert leased(queued) == [True]


async def test_too_many_and_too_long_are_refused() -> None:
    """With 503, which may be tried again; an answer that is carried on is let in, and has a limit of its own. What a
    pause holds waits for no rank, so that any number may be held.
    """
    bounds = {"rank_turns": 1, "queue_turns": 1, "queue_wait_s": 0.1, "resume_timeout_s": 0.2}
    async with pooled(Known("a"), **bounds) as pool:
        running, waits = pool.call("s"), pool.call("t")
        resumes = pool.call("r", resumes=True)
        await settle()
        with pytest.raises(EngineUnavailable, match="--queue-turns") as refused:
            await pool.call("u").task
        assert refused.value.retryable
        pool.backends.gate.set("all")
        await asyncio.sleep(0.15)
        assert not waits.task.done()
        held = [pool.call(name) for name in "vwxyz"]
        await settle()
        assert not any(call.task.done() for call in held)
        pool.backends.gate.set(None)
        with pytest.raises(EngineUnavailable, match=r"within 0\.1 s"):
            await waits.task
        with pytest.raises(EngineUnavailable, match=r"carry this answer on within 0\.2 s"):
            await resumes.task
        assert leased(running) == [True]


async def test_without_a_line_a_full_rank_refuses_at_once() -> None:
    """And takes what it has room for."""
    async with pooled(Known("a"), rank_turns=1, queue_turns=0) as pool:
        running = pool.call("s")
        await settle()
        with pytest.raises(EngineUnavailable, match="--queue-turns"):
            await pool.call("t").task
        await running.end()
        assert await pool.call("t").end() == "a#0"


async def test_who_has_no_rank_goes_to_the_first_that_has_room() -> None:
    """Who has one waits for that."""
    async with pooled(Known("a"), Known("b"), rank_turns=1) as pool:
        first = pool.call("s")
        other = pool.call("t")
        await settle()
        assert {first.rank, other.rank} == {"a#0", "b#0"}
        pinned, free = pool.call("s"), pool.call("u")
        await settle()
        assert leased(pinned, free) == [False, False]
        await other.end()
        await settle()
        assert (pinned.rank, free.rank) == (None, other.rank)
        await first.end()
        await settle()
        assert pinned.rank == first.rank


async def test_parallel_first_calls_of_a_session_share_a_rank() -> None:
    """Though others are idle, and also where they had to wait before."""
    async with pooled(Known("a"), Known("b"), rank_turns=2) as pool:
        calls = [pool.call("s") for _ in range(4)]
        await settle()
        assert leased(*calls) == [True, True, False, False]
        await calls[0].end()
        await settle()
        assert len({call.rank for call in calls[:3]}) == 1

    async with pooled(Known("a"), Known("b")) as pool:
        pool.backends.gate.set("all")
        calls = [pool.call("s") for _ in range(4)]
        await settle()
        pool.backends.gate.set(None)
        await settle()
        assert len({call.rank for call in calls}) == 1
        assert leased(*calls) == [True] * 4


@pytest.mark.parametrize("moment", range(14))
async def test_cancelled_at_any_moment_a_call_leaves_nothing_behind(moment: int) -> None:
    """Be it before, in, or after the moment at which it is given its rank."""
    async with pooled(Known("a"), rank_turns=1) as pool:
        running = pool.call("s")
        await settle()
        waits, behind = pool.call("t"), pool.call("u")
        for step in range(14):
            if step == 3:
                running.over.set()
            if step == moment:
                waits.task.cancel()
            await asyncio.sleep(0)
        await settle()
        if waits.task.cancelled():
            assert leased(behind) == [True]
            await behind.end()
            pool.holds_nothing()


async def test_a_new_session_waits_until_it_fits_into_a_cache() -> None:
    """Old ones do not; the one that has waited for longest is first; room comes with sessions that end or are idle."""
    bounds = {"resident_share": 1.0, "resident_idle_s": 0.1, "rank_turns": 9}
    async with pooled(Known("a"), **bounds) as pool:
        pool.backends.ranks[0].capacity_tokens = 100
        await pool.call("s", 10, new_session=True).end(80)
        large, small = pool.call("t", 60, new_session=True), pool.call("u", 5, new_session=True)
        old = pool.call("s", 90)
        branch = pool.call("s", 85, new_session=True)
        await settle()
        assert leased(large, small, old, branch) == [False, False, True, True]
        await branch.end(95)
        await old.end(95)
        await settle()
        assert leased(large, small) == [False, False]
        pool.now_s = 0.2
        await until(lambda: leased(large, small) == [True, True])
        huge = pool.call("v", 1000, new_session=True)
        await settle()
        assert leased(huge) == [False]
        for call in (large, small):
            await call.end(70)
            pool.backends.forget(call.affinity)
        await settle()
        assert leased(huge) == [True]
        assert pool.counted("gateway_rank_resident_tokens", engine="a", rank="0") == 1000


async def test_a_new_session_waits_for_the_room_that_those_before_it_will_need() -> None:
    """They come to what others came to, probably. What is told of them is what they take up by now."""
    async with pooled(Known("a"), resident_share=1.0, rank_turns=9) as pool:
        pool.backends.ranks[0].capacity_tokens = 100
        await pool.call("s", 10, new_session=True).end(45)
        pool.backends.forget(pool.session("s"))
        calls = [pool.call(name, 10, new_session=True) for name in "tuv"]
        await settle()
        assert leased(*calls) == [True, True, False]
        assert pool.counted("gateway_rank_resident_tokens", engine="a", rank="0") == 20
        await calls[0].end(40)
        await settle()
        assert leased(calls[2]) == [False]
        pool.backends.forget(calls[0].affinity)
        await settle()
        assert leased(calls[2]) == [True]


async def test_new_sessions_go_where_there_is_room() -> None:
    """Of ranks that do not say how much they hold, any has."""
    async with pooled(Known("a"), Known("b"), resident_share=0.5) as pool:
        for rank in pool.backends.ranks:
            rank.capacity_tokens = 100
        calls = [pool.call(name, 30, new_session=True) for name in "stu"]
        await settle()
        assert leased(*calls) == [True, True, False]
        assert {call.rank for call in calls[:2]} == {"a#0", "b#0"}
        pool.backends.ranks[1].capacity_tokens = None
        pool.backends.changed()
        await settle()
        assert calls[2].rank == "b#0"


async def test_two_thousand_held_turns_are_released_within_bounds() -> None:
    """No rank is ever given more to prefill than it may, and the queues are emptied in no time."""
    async with pooled(Known("a"), Known("b"), rank_prefill_tokens=262_144) as pool:
        pool.backends.gate.set("all")
        calls = [pool.call(str(at), 32_768, remaining_tokens=at) for at in range(2000)]
        await settle()
        begun_s = asyncio.get_running_loop().time()
        pool.backends.gate.set(None)
        done = 0
        while done < 2000:
            await asyncio.sleep(0)
            under_way = [call for call in calls[done : done + 64] if call.lease is not None and not call.task.done()]
            assert all(place.prefilling_tokens <= 262_144 for place in pool.backends.places.all())
            assert len(under_way) <= 16
            for call in under_way:
                await call.end(1)
            done += len(under_way)
        assert asyncio.get_running_loop().time() - begun_s < 3
