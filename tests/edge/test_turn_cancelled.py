"""Cancelled anywhere, a turn is not recorded as complete, and holds nothing."""

import asyncio
from collections.abc import AsyncIterator
from itertools import count

import pytest

from gateway.core.types import Message, Sampling, TurnRequest
from gateway.edge.backends import Backends
from gateway.edge.deps import Deps
from gateway.edge.engine import Engine
from gateway.edge.feed import Feed, Reader
from gateway.edge.metrics import Metrics
from gateway.edge.session import Session, TurnCall
from gateway.edge.sessions import Sessions
from gateway.edge.turn import take_turn
from gateway.errors import SessionClosed, UnknownSession
from gateway.render.registry import Renderers
from gateway.sim import JOURNAL, create_sim
from gateway.wire.pieces import Piece
from tests.edge.house import Application, Words, serving, until
from tests.edge.keeping import KeepingStore
from tests.edge.pooling import deps_of, holds_nothing
from tests.edge.suspensions import Suspensions


class Bench:
    """All that a turn needs, without a server in front."""

    def __init__(self, deps: Deps, store: KeepingStore, sim: Application, words: Words) -> None:
        self.deps = deps
        self.store = store
        self.sim = sim
        self.words = words
        self.session = Session("s")

    async def take(self, text: str, *said: str, n: int = 1, feed: Feed | None = None) -> None:
        """Take a turn, or `n` siblings: the model says `text` after what was said before, in turns.

        With a `feed` they are streamed into it.
        """
        roles = ("user", "assistant")
        messages = tuple(Message(roles[at % 2], content) for at, content in enumerate(said or ("Hello?",)))  # type: ignore[arg-type]  # roles
        sampling = Sampling(extra_args={"script": self.words.said(text)}, stop=("STOP",))
        turn_ids = tuple(f"t{len(self.store.turns)}-{index}" for index in range(n))
        request = TurnRequest(messages, sampling=sampling, n=n, stream=feed is not None)
        try:
            await take_turn(TurnCall(self.session.id, request, turn_ids, "r", feed=feed), self.session, self.deps)
        finally:
            if feed is not None:
                feed.end()

    def serving(self) -> set["asyncio.Task[object]"]:
        """The tasks of the engine's server, which wait for more on connections that are kept."""
        return {task for task in asyncio.all_tasks() if "RequestHandler" in repr(task.get_coro())}

    @property
    def statuses(self) -> list[str]:
        """What the session's turns are, in order."""
        return [turn.status for turn in self.session.ledger.turns]

    async def holds_nothing(self) -> None:
        """No lease is counted, and the engine is left in peace."""
        every = self.deps.metrics.registry.collect()
        (gauge,) = (metric for metric in every if metric.name == "gateway_turns_in_flight")
        assert [sample.value for sample in gauge.samples] == [0.0]
        holds_nothing(self.deps.backends)
        await until(lambda: self.sim[JOURNAL].running == 0)


@pytest.fixture
async def bench(renderers: Renderers, words: Words) -> AsyncIterator[Bench]:
    """A bench with one sim, whose event loop looks closely."""
    asyncio.get_running_loop().set_debug(True)
    sim, store, metrics = create_sim(token_delay_s=0.0005), KeepingStore(), Metrics()
    async with serving(sim) as server:
        backends = Backends([Engine(str(server.make_url("")))], metrics)
        await backends.refresh()
        deps = deps_of(renderers, backends, store, metrics)
        yield Bench(deps, store, sim, words)
        await backends.close()
        deps.render_threads.shutdown()


@pytest.mark.parametrize("n", [1, 3])
async def test_cancelled_at_each_of_its_awaits_a_call_leaves_no_trace_but_aborted_turns(bench: Bench, n: int) -> None:
    """One await after the other: nothing complete is recorded, at most one aborted turn a choice, and nothing is held."""
    await bench.take("Hi.")
    for at in count():
        before, puts = bench.statuses, len(bench.store.turns)
        suspensions = Suspensions(at)
        work = bench.take("A longer answer.", "Hello?", "Hi.", "And?", n=n)
        task = asyncio.ensure_future(suspensions.run(work))
        await asyncio.gather(task, return_exceptions=True)
        added = bench.statuses[len(before) :]
        await bench.holds_nothing()
        if not suspensions.reached:  # it ended before it waited so often
            assert added == ["complete"] * n
            break
        assert task.cancelled()
        assert added == ["aborted"] * len(added)
        assert len(bench.store.turns) - puts == len(added) <= n

    assert at > 5 * n
    assert "aborted" in bench.statuses


async def read(feed: Feed, pause_s: float) -> str:
    """Read all that a call says, with a pause after each piece."""
    said: list[Piece] = []
    with Reader(feed) as reader:
        while not reader.has_ended:
            await reader.wait(1)
            said += reader.take()
            await asyncio.sleep(pause_s)
        said += reader.take()
    return "".join(piece.text for piece in said if piece.index == 0)


@pytest.mark.parametrize("n", [1, 2])
@pytest.mark.parametrize("how", ["unread", "read", "blocked for room"])
async def test_cancelled_at_each_of_its_awaits_a_streamed_call_leaves_no_trace_either(
    bench: Bench, how: str, n: int
) -> None:
    """Whether nobody reads it, somebody does, or it waits for somebody slow: as above, and its reader hears the end."""
    tasks = asyncio.all_tasks()
    for at in count():
        before = bench.statuses
        feed = Feed("s", ("t",) * n, room_bytes=1 if how == "blocked for room" else 1 << 20)
        reading = [] if how == "unread" else [asyncio.ensure_future(read(feed, 0 if how == "read" else 0.004))]
        suspensions = Suspensions(at)
        task = asyncio.ensure_future(suspensions.run(bench.take("A longer answer.", n=n, feed=feed)))
        await asyncio.gather(task, return_exceptions=True)
        said = await asyncio.gather(*reading)
        added = bench.statuses[len(before) :]
        await bench.holds_nothing()
        assert feed._readers == []
        if not suspensions.reached:  # it ended before it waited so often
            assert added == ["complete"] * n
            assert said == ["A longer answer."] * len(reading)
            break
        assert task.cancelled()
        assert added == ["aborted"] * len(added)
        assert len(added) <= n
        assert all("A longer answer.".startswith(text) for text in said)

    assert at > 5 * n
    assert "aborted" in bench.statuses
    await until(lambda: not asyncio.all_tasks() - tasks - bench.serving())


@pytest.mark.parametrize("n", [1, 3])
async def test_deleted_at_each_of_its_awaits_a_session_leaves_no_trace(bench: Bench, n: int) -> None:
    """One await after the other: its call is refused or was recorded before, and nothing is stored after the deletion."""
    for at in count():
        sessions, store, deletions = Sessions(), bench.store, list[asyncio.Task[None]]()

        async def take(sessions: Sessions = sessions) -> None:
            sampling = Sampling(extra_args={"script": bench.words.said("A longer answer.")})
            request = TurnRequest((Message("user", "Hello?"),), sampling=sampling, n=n)
            call = TurnCall("s", request, tuple(map(str, range(n))), "r")
            with sessions.entered(call) as session:
                await take_turn(call, session, bench.deps)

        def delete(sessions: Sessions = sessions, deletions: list[asyncio.Task[None]] = deletions) -> None:
            deletions.append(asyncio.ensure_future(sessions.delete("s", bench.store)))

        before, done = len(store.turns), len(store.deleted)
        suspensions = Suspensions(at, delete)
        task = asyncio.ensure_future(suspensions.run(take()))
        await asyncio.gather(task, return_exceptions=True)
        await asyncio.gather(*deletions)
        await bench.holds_nothing()
        if not suspensions.reached:  # it ended before it waited so often
            break
        kept, refusal = [turn.status for turn in store.turns[before:]], task.exception()
        assert kept == (["aborted"] * len(kept) if refusal else ["complete"] * n)
        assert refusal is None or isinstance(refusal, SessionClosed)
        assert store.deleted[done:] == [("s", len(store.turns))]
        with pytest.raises(UnknownSession):
            sessions.get("s")
        assert not sessions._sessions

    assert at > 5 * n


async def test_what_is_kept_of_a_cancelled_turn_is_what_the_engine_wrote_first(bench: Bench) -> None:
    """Every aborted turn's ids are a prefix of the script, in the context that the engine read."""
    script = bench.words.said("A longer answer.")
    for at in range(40):
        work = Suspensions(at).run(bench.take("A longer answer.", n=2))
        await asyncio.gather(asyncio.ensure_future(work), return_exceptions=True)

    await bench.holds_nothing()
    prompts = [entry.body["token_ids"] for entry in bench.sim[JOURNAL].entries]
    for turn in bench.store.turns:
        ids = turn.completion.ids.tolist()
        assert ids == script[: len(ids)]
        assert turn.prompt_ids().tolist() in prompts
        assert turn.base is None


class Hanging(Engine):
    """An engine that takes a call and never says a word, or fails as it is told."""

    def __init__(self, failure: Exception | None = None) -> None:
        super().__init__("http://hanging")
        self.max_model_len = 4096
        self.failure = failure
        self.asked = 0
        self.left = 0

    async def generate(
        self, body: bytes, *, request_id: str, rank: int = 0, session_id: str | None = None, doubts: bool = True
    ):
        self.asked += 1
        try:
            if self.failure is not None:
                raise self.failure
            await asyncio.Event().wait()
            yield b""
        finally:
            self.left += 1


async def test_a_silent_engine_is_left_when_the_turn_is_cancelled(renderers: Renderers, words: Words) -> None:
    """Its stream is closed before the turn ends, and nothing is recorded."""
    engine, store, metrics = Hanging(), KeepingStore(), Metrics()
    deps = deps_of(renderers, Backends([engine], metrics), store, metrics)
    session = Session("s")
    call = TurnCall("s", TurnRequest((Message("user", "Hello?"),)), ("t",), "r")
    task = asyncio.ensure_future(take_turn(call, session, deps))
    await until(lambda: engine.asked)

    task.cancel()
    await asyncio.gather(task, return_exceptions=True)

    assert task.cancelled()
    assert engine.left == 1
    assert (list(session.ledger.turns), store.turns) == ([], [])
    holds_nothing(deps.backends)
    deps.render_threads.shutdown()


async def test_an_unforeseen_failure_holds_nothing_and_records_nothing(renderers: Renderers) -> None:
    """A bug below is no turn, and its lease is given back."""
    engine, store, metrics = Hanging(RuntimeError("a bug")), KeepingStore(), Metrics()
    deps = deps_of(renderers, Backends([engine], metrics), store, metrics)
    session = Session("s")

    with pytest.raises(RuntimeError, match="a bug"):
        await take_turn(TurnCall("s", TurnRequest((Message("user", "Hello?"),)), ("t",), "r"), session, deps)

    assert (list(session.ledger.turns), store.turns) == ([], [])
    holds_nothing(deps.backends)
    deps.render_threads.shutdown()
