"""What becomes of those who wait, and of sessions, when a rank leaves, fails or has too much to do."""

import pytest

from gateway.core.health import Health
from gateway.edge.rank import Gauges
from gateway.errors import EngineUnavailable
from tests.edge.house import until
from tests.edge.pooling import Known, leased, pooled, settle


async def test_who_waits_for_a_rank_that_leaves_service_is_sent_elsewhere() -> None:
    """Whether it drains, is removed, or does not answer; and a rank that comes takes who waits."""
    for leave in ("drain", "remove", "away"):
        async with pooled(Known("a"), rank_turns=1) as pool:
            held = pool.call("s")
            waits, stranger = pool.call("s"), pool.call("t")
            await settle()
            one, two = pool.engine("a"), Known("b")
            two.max_model_len = 4096
            pool.backends.add(two)
            await settle()
            assert (waits.rank, stranger.rank) == (None, "b#0")
            await stranger.end()
            if leave == "drain":
                pool.backends.drain(pool.backends.ranks[0], draining=True)
            elif leave == "remove":
                pool.backends.remove(one)
            else:
                one.max_model_len = None
                pool.backends.changed()
            await settle()
            assert (held.rank, waits.rank) == ("a#0", "b#0")
            await held.end()
            reason = {"drain": "draining", "remove": "removed", "away": "down"}[leave]
            assert pool.counted("gateway_session_moves_total", reason=reason) == 1


async def test_where_no_rank_is_left_new_calls_are_refused_and_cut_ones_wait() -> None:
    """For an engine to come back."""
    known = Known("a")
    async with pooled(known, rank_turns=1) as pool:
        held, waits, resumes = pool.call("s"), pool.call("t"), pool.call("u", resumes=True)
        await settle()
        known.up, known.max_model_len = False, None
        pool.backends.changed()
        with pytest.raises(EngineUnavailable, match="a is down"):
            await waits.task
        with pytest.raises(EngineUnavailable, match="a is down"):
            await pool.call("v").task
        await held.end()
        await settle()
        assert leased(resumes) == [False]
        known.up = True
        await pool.backends.refresh()
        await settle()
        assert leased(resumes) == [True]
        await resumes.end()
        pool.backends.drain(pool.backends.ranks[0], draining=True)
        with pytest.raises(EngineUnavailable, match="drained or down"):
            await pool.call("v").task


async def test_a_session_leaves_an_overloaded_rank() -> None:
    """Which its engine says, as long as that is fresh, or our own line; the move is counted with what it costs."""
    async with pooled(Known("a"), Known("b"), rank_turns=9, queue_turns=9) as pool:
        home = await pool.call("s", 700).end(800)
        rank = next(rank for rank in pool.backends.ranks if rank.name == home)
        rank.gauges = Gauges(10, 20, 0.9, 0, 0, at_s=0.0)
        pool.now_s = 11.0
        assert await pool.call("s", 900).end(1000) == home
        pool.now_s = 9.0
        away = await pool.call("s", 1100).end(1200)
        assert away != home
        assert pool.counted("gateway_session_moves_total", reason="overloaded") == 1
        assert pool.counted("gateway_reprefill_tokens_total", reason="overloaded") == 1000
        assert await pool.call("s", 1100).end(1200) == away


async def test_a_session_moves_once_though_the_rank_that_was_chosen_first_was_gone() -> None:
    """A move is one to where a turn goes, with what was cached where the last one went."""
    engines = {name: Known(name) for name in "abc"}
    async with pooled(*engines.values()) as pool:
        homes = {session: await pool.call(session, 1000).end(1000) for session in "abcdefghijklmnopqrstuvwxyz"}
        left = [session for session, home in homes.items() if not home.startswith("c")]
        for name in "ab":
            engines[name].up = False
        await pool.backends.checks.ask(engines["a"])
        engines["b"].doubt()
        calls = [pool.call(session, 1000) for session in left]
        assert {await call.end(1000) for call in calls} == {"c#0"}

        assert pool.counted("gateway_session_moves_total", reason="down") == len(left)
        assert pool.counted("gateway_reprefill_tokens_total", reason="down") == 1000 * len(left)


async def test_a_failed_call_goes_elsewhere_next_and_others_stay() -> None:
    """One failure takes no rank out of service; where there is no other, it goes there again."""
    async with pooled(Known("a"), Known("b")) as pool:
        home = await pool.call("s", 10).end(10)
        call = pool.call("s", 10)
        await settle()
        assert call.lease is not None
        call.lease.failed()
        assert call.lease.rank.health == Health("suspect", 1)
        await call.end()
        await until(
            lambda: call.lease is not None and call.lease.rank.health == Health("up", 1)
        )  # it was asked at once
        assert await pool.call("s", 10).end(10) != home
        assert pool.counted("gateway_session_moves_total", reason="down") == 1
        assert call.lease.rank.serves

    async with pooled(Known("a")) as pool:
        call = pool.call("s")
        await settle()
        assert call.lease is not None
        call.lease.failed()
        await call.end()
        again = pool.call("s")
        await settle()
        assert again.lease is not None
        again.lease.heard()
        assert again.lease.rank.health.state == "up"
