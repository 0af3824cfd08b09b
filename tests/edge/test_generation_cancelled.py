"""Cancelled anywhere while it is carried on, an answer is one aborted turn of all that was sampled, and holds nothing."""

import asyncio
from collections.abc import AsyncIterator
from itertools import count

import pytest

from gateway.core.turn import Turn
from gateway.core.types import Message, Sampling, TurnRequest
from gateway.edge.backends import Backends
from gateway.edge.deps import Deps
from gateway.edge.engine import Engine
from gateway.edge.feed import Feed
from gateway.edge.metrics import Metrics
from gateway.edge.session import Session, TurnCall
from gateway.edge.turn import take_turn
from gateway.render.registry import Renderers
from gateway.sim import FAULTS, JOURNAL, create_sim
from gateway.sim.server import Faults
from tests.edge.house import serving, until
from tests.edge.keeping import KeepingStore
from tests.edge.pair import EOS, SAID
from tests.edge.pooling import deps_of, holds_nothing
from tests.edge.suspensions import Suspensions


class Bench:
    """What a turn needs, with an engine that aborts calls after two ids each."""

    def __init__(self, deps: Deps, store: KeepingStore, faults: Faults) -> None:
        self.deps = deps
        self.store = store
        self.faults = faults

    async def take(self, at: int, *, aborts: int, resumable: bool, streams: bool) -> tuple[bool, list[Turn]]:
        """Take a turn of five ids and cancel it at its await number `at`: whether it came so far, and what is kept."""
        session, before = Session("s"), len(self.store.turns)
        self.faults.clear()
        self.faults.inject("abort", after=2, times=aborts)
        sampling = Sampling(ignore_eos=True, max_tokens=5, presence_penalty=None if resumable else 1.0)
        feed = Feed("s", ("t",), room_bytes=1 << 20) if streams else None
        request = TurnRequest((Message("user", "Hello?"),), sampling=sampling, stream=streams)
        suspensions = Suspensions(at)
        work = take_turn(TurnCall("s", request, ("t",), "r", feed=feed), session, self.deps)
        task = asyncio.ensure_future(suspensions.run(work))
        await asyncio.gather(task, return_exceptions=True)
        holds_nothing(self.deps.backends)
        assert not self.deps.running
        assert task.cancelled() == suspensions.reached
        return suspensions.reached, self.store.turns[before:]


@pytest.fixture
async def bench(renderers: Renderers, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Bench]:
    """One with an engine on a socket."""
    monkeypatch.setattr("gateway.core.resume._BACK_OFF_S", 0.001)
    sim, store, metrics = create_sim(), KeepingStore(), Metrics()
    async with serving(sim) as server:
        backends = Backends([Engine(str(server.make_url("")))], metrics)
        await backends.refresh()
        deps = deps_of(renderers, backends, store, metrics, attempts=2)
        yield Bench(deps, store, sim[FAULTS])
        await until(lambda: sim[JOURNAL].running == 0)
        await backends.close()
        deps.render_threads.shutdown()


@pytest.mark.parametrize("streams", [False, True])
async def test_cancelled_at_each_of_its_awaits_a_resumed_answer_is_one_turn(bench: Bench, *, streams: bool) -> None:
    """Of all parts that were sampled."""
    most, due = 0, [*SAID[:2] * 2, SAID[0]]
    kept: list[Turn] = []
    for at in count():
        reached, kept = await bench.take(at, aborts=2, resumable=True, streams=streams)
        if not reached:  # it ended before it waited so often
            break
        assert len(kept) <= 1
        for turn in kept:
            ids = turn.completion.ids.tolist()
            assert (turn.status, turn.ended_by, ids) == ("aborted", "cancelled", due[: len(ids)])
            assert [cut.position for cut in turn.completion.cuts] == [at for at in (2, 4) if at < len(ids)]
            most = max(most, len(ids))

    assert most >= 4
    assert [(turn.status, turn.completion.ids.tolist()) for turn in kept] == [("complete", due)]


async def test_cancelled_at_each_of_its_awaits_an_answer_that_is_made_anew_leaves_both(bench: Bench) -> None:
    """What was discarded is the engine's failure; each is a turn of its own."""
    most, due = 0, [*SAID, EOS, SAID[0]]
    told: list[tuple[str, str, list[int]]] = []
    for at in count():
        reached, kept = await bench.take(at, aborts=1, resumable=False, streams=False)
        told = [(turn.status, turn.ended_by, turn.completion.ids.tolist()) for turn in kept]
        if not reached:
            break
        assert len({turn.id for turn in kept}) == len(kept) <= 2
        assert all(status == "aborted" and ids in (due[:1], due[:2], due) for status, _, ids in told)
        assert len(kept) < 2 or told[0] == ("aborted", "infra", due[:2])
        most = max(most, len(kept))

    assert most == 2
    assert told == [("aborted", "infra", due[:2]), ("complete", "max_tokens", due)]
