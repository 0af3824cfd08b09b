"""Whatever happens in whatever order: no lease leaks, the bounds hold, and nobody is left waiting without need."""

import asyncio
from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from gateway.core.pool import Bounds
from tests.edge.pooling import Call, Known, Pool, settle

BOUNDS = Bounds(
    rank_turns=3, rank_prefill_tokens=100, queue_turns=50, resident_share=1.0, resident_idle_s=5.0, queue_wait_s=3600
)
CAPACITY_TOKENS = 400

moves = st.lists(
    st.one_of(
        st.tuples(st.just("arrive"), st.integers(0, 5), st.sampled_from([1, 30, 60, 150])),
        st.tuples(st.sampled_from(["cancel", "heard", "end", "fail"]), st.integers(0, 9), st.integers(1, 200)),
        st.tuples(st.sampled_from(["drain", "away", "join", "gate", "later", "over"]), st.integers(0, 2), st.just(0)),
    ),
    max_size=60,
)


async def make(pool: Pool, move: tuple[str, int, int]) -> None:
    """One move."""
    what, which, tokens = move
    waiting = [call for call in pool.calls if not call.task.done()]
    having = [call for call in waiting if call.lease is not None]
    ranks = pool.backends.ranks
    match what:
        case "arrive":
            pool.call(f"s{which}", tokens, new_session=not pool.session(f"s{which}").resident_tokens)
        case "cancel" if waiting:
            waiting[which % len(waiting)].task.cancel()
        case "heard" | "end" | "fail" if having:
            call = having[which % len(having)]
            assert call.lease is not None
            if what == "end":
                await call.end(tokens)
            elif what == "heard":
                call.lease.heard()
            else:
                call.lease.failed()
                await call.end()
        case "drain" if len(ranks) > 1:
            rank = ranks[1 + which % (len(ranks) - 1)]
            pool.backends.drain(rank, draining=not rank.draining)
        case "away" if len(ranks) > 1:
            pool.backends.remove(ranks[1 + which % (len(ranks) - 1)].engine)
        case "join":
            engine = Known("bcd"[which])
            engine.max_model_len = 4096
            pool.backends.add(engine)
            pool.backends.ranks[-1].capacity_tokens = CAPACITY_TOKENS
        case "gate":
            pool.backends.gate.set((None, "all", "new_sessions")[which])
        case "later":
            pool.now_s += 3
            pool.backends.changed()
        case "over":
            pool.backends.forget(pool.session(f"s{which}"))
        case _:
            pass


def check(pool: Pool, former: Sequence[Call] = ()) -> None:
    """What holds after each move, before which the calls `former` had ranks."""
    for call in pool.calls:
        assert not call.task.done() or call.task.cancelled() or call.task.exception() is None
        assert call.lease is None or call in former or call.task.done() or call.lease.rank.serves
    residency = pool.backends.places.residency
    for rank in "abcd":
        stays = [stay for stay in residency._stays.values() if stay.rank == f"{rank}#0"]
        assert residency.tokens(f"{rank}#0") == sum(stay.tokens for stay in stays)
        assert residency.claims(f"{rank}#0") == sum(max(stay.tokens, stay.expected) for stay in stays)
    for place in pool.backends.places.all():
        having = [call for call in pool.calls if call.lease is not None and not call.task.done()]
        there = [call for call in having if call.lease is not None and call.lease._ticket.place is place]
        assert place.in_flight == len(there) <= BOUNDS.rank_turns
        prefilling = [call.lease._ticket.prefill_tokens for call in there if call.lease is not None]
        assert place.prefilling_tokens == sum(prefilling)
        assert sum(prefilling) <= BOUNDS.rank_prefill_tokens or sum(map(bool, prefilling)) == 1


@given(moves)
def test_no_lease_leaks_and_nobody_is_starved(moves: list[tuple[str, int, int]]) -> None:
    """Once all is open and those that have ranks end, everybody gets one."""

    async def play() -> None:
        pool = Pool([Known("a")], BOUNDS)
        await pool.backends.refresh()
        pool.backends.ranks[0].capacity_tokens = CAPACITY_TOKENS
        for move in moves:
            former = [call for call in pool.calls if call.lease is not None]
            await make(pool, move)
            await settle()
            check(pool, former)
        pool.backends.gate.set(None)
        await settle()
        while waiting := [call for call in pool.calls if not call.task.done()]:
            having = [call for call in waiting if call.lease is not None]
            if not having:
                pool.now_s += BOUNDS.resident_idle_s
                pool.backends.places.residency.expire(pool.now_s)
                pool.backends.changed()
                await settle()
                having = [call for call in waiting if call.lease is not None]
            assert having, "somebody waits, and nobody has a rank"
            for call in having:
                await call.end(5)
            check(pool)
        pool.holds_nothing()
        for affinity in pool.sessions.values():
            pool.backends.forget(affinity)
        left = pool.backends.places.residency
        assert not any((left._stays, left._idle, left._tokens, left._claims, left._sessions))
        await pool.backends.close()

    asyncio.run(play())
