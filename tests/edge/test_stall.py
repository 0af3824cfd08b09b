"""Silence is a stall only where nothing explains it."""

import asyncio
from dataclasses import replace

import pytest

from gateway.core.health import Health
from gateway.core.versions import Marks, Versions
from gateway.edge.backends import Backends
from gateway.edge.engine import Engine
from gateway.edge.metrics import Metrics
from gateway.edge.rank import Gauges, Rank
from gateway.edge.running import EngineCall
from gateway.edge.stall import Silence, Stalls, seems_dead

IDLE = Gauges(running=1, waiting=0, kv_usage=0.5, prompt_tokens=100, generation_tokens=50, at_s=0.0)
LATER = replace(IDLE, at_s=9.0)


@pytest.mark.parametrize(
    ("before", "after", "begun", "dead"),
    [
        (None, None, True, True),
        (IDLE, LATER, True, True),
        (IDLE, replace(LATER, generation_tokens=51), True, True),
        (IDLE, replace(LATER, waiting=1), True, True),
        (IDLE, replace(LATER, waiting=1, generation_tokens=51), True, False),
        (None, replace(LATER, waiting=1, generation_tokens=51), True, True),
        (None, None, False, False),
        (None, LATER, False, False),
        (IDLE, None, False, False),
        (IDLE, IDLE, False, False),
        (IDLE, LATER, False, True),
        (IDLE, replace(LATER, running=0), False, False),
        (replace(IDLE, running=0), LATER, False, False),
        (IDLE, replace(LATER, prompt_tokens=101), False, False),
        (IDLE, replace(LATER, generation_tokens=51), False, False),
        (IDLE, replace(LATER, kv_usage=0.51), False, False),
        (replace(IDLE, running=0), replace(LATER, running=0), False, True),
        (replace(IDLE, running=0), replace(LATER, running=0, waiting=1), False, False),
        (IDLE, replace(LATER, prompt_tokens=3, generation_tokens=1), False, True),
        (IDLE, replace(LATER, prompt_tokens=300, generation_tokens=1), False, True),
    ],
)
def test_an_answer_that_has_begun_stalls_unless_others_go_on_and_another_only_if_nothing_does(
    before: Gauges | None, after: Gauges | None, *, begun: bool, dead: bool
) -> None:
    """A preempted request waits for others; a prompt may take minutes to be read, and moves the gauges meanwhile."""
    assert seems_dead(before, after, begun=begun) is dead


class Paused(Engine):
    """An engine that says whether it is paused, or nothing."""

    def __init__(self, body: bytes | None = None, status: int = 200) -> None:
        super().__init__("http://paused")
        self.max_model_len = 4096
        self.answer = (status, body or b"")
        self.asked = 0

    async def get(self, path: str, *, limit_s: float = 1.0) -> tuple[int, bytes]:
        assert path == "/is_paused"
        self.asked += 1
        return self.answer


class Clocked:
    """Calls to one engine, by a clock that a test moves."""

    def __init__(self, engine: Paused) -> None:
        self.engine = engine
        self.now_s = 1000.0
        self.backends = Backends([engine], Metrics())
        self.stalls = Stalls(10.0, clock=lambda: self.now_s)

    def beside_another(self) -> list[Rank]:
        """The ranks of its engine, and of another one that answers."""
        other = Engine("http://other")
        other.max_model_len = 4096
        self.backends.add(other)
        return self.backends.ranks

    def call(self) -> EngineCall:
        """A call at its rank."""
        return EngineCall(self.backends.ranks[0], lambda: 0, Marks(Versions()))

    async def pass_s(self, seconds: float) -> None:
        """Let time pass, and look."""
        self.now_s += seconds
        await self.stalls.look(self.backends)

    async def told(self, silence: Silence, *seconds: float) -> bool:
        """Whether a call that is listened to counts as stalled after looks in these distances."""
        with silence.listening():
            for wait_s in seconds:
                await self.pass_s(wait_s)
        return silence.call.interrupted == "stall"


@pytest.mark.parametrize(
    ("engine", "stalled"),
    [
        (Paused(b'{"is_paused": false}'), True),
        (Paused(b'{"detail": "Not Found"}', 404), True),
        (Paused(b'{"is_paused": true}', 500), True),
        (Paused(b"{}"), True),
        (Paused(b"[]"), True),
        (Paused(b"?"), True),
        (Paused(b'{"is_paused": true}'), False),
    ],
)
async def test_a_silent_engine_has_stalled_unless_it_says_it_is_paused(engine: Paused, *, stalled: bool) -> None:
    """It is asked when the time has run out, and not before."""
    clocked = Clocked(engine)
    with clocked.stalls.watched(clocked.call()) as silence:
        silence.begun = True
        assert not await clocked.told(silence, 0, 9)
        assert engine.asked == 0
        assert await clocked.told(silence, 0, 5, 5) is stalled
        assert engine.asked == 1
    await engine.close()


async def test_an_engine_that_does_not_say_whether_it_is_paused_since_it_is_gone_has_stalled() -> None:
    """Nobody listens there."""
    engine = Engine("http://127.0.0.1:1")
    clocked = Clocked(engine)  # type: ignore[arg-type]  # it is asked in earnest
    with clocked.stalls.watched(clocked.call()) as silence:
        silence.begun = True
        assert await clocked.told(silence, 0, 10)
    await engine.close()


async def test_time_counts_from_the_last_word_and_only_while_somebody_listens() -> None:
    """A client that reads slowly is no fault of the engine's."""
    clocked = Clocked(Paused())
    with clocked.stalls.watched(clocked.call()) as silence:
        silence.begun = True
        assert not await clocked.told(silence, 0, 9)
        await clocked.pass_s(100)
        assert not await clocked.told(silence, 0, 9)
        assert await clocked.told(silence, 0, 10)


async def test_nothing_stalls_while_turns_are_held() -> None:
    """Nor does that time count afterwards."""
    clocked = Clocked(Paused())
    with clocked.stalls.watched(clocked.call()) as silence:
        silence.begun = True
        with silence.listening():
            await clocked.pass_s(0)
            clocked.backends.gate.set("all")
            await clocked.pass_s(100)
            clocked.backends.gate.set(None)
            await clocked.pass_s(9)
            assert silence.call.interrupted is None
            await clocked.pass_s(1)
            assert silence.call.interrupted == "stall"


async def test_before_its_first_id_an_answer_stalls_by_the_gauges_of_its_rank_alone() -> None:
    """Those at the silence's beginning and fresh ones at its end; old ones say nothing."""
    clocked = Clocked(Paused())
    rank = clocked.backends.ranks[0]
    with clocked.stalls.watched(clocked.call()) as silence:
        assert not await clocked.told(silence, 0, 50)
        rank.gauges = replace(IDLE, at_s=clocked.now_s)
        assert not await clocked.told(silence, 0, 10)
        with silence.listening():
            for _ in range(3):
                rank.gauges = replace(IDLE, at_s=clocked.now_s)
                await clocked.pass_s(5)
            rank.gauges = replace(IDLE, at_s=clocked.now_s)
            await clocked.pass_s(0)
        assert silence.call.interrupted == "stall"


@pytest.mark.parametrize("begun", [False, True])
async def test_silence_of_a_rank_that_is_down_is_no_stall_but_the_end_where_there_is_another(begun: bool) -> None:
    """It must have been silent for a while; a rank that is up again has forgotten what it was silent in."""
    clocked = Clocked(Paused())
    rank, other = clocked.beside_another()
    with clocked.stalls.watched(clocked.call()) as silence:
        silence.begun = begun
        with silence.listening():
            await clocked.pass_s(0)
            rank.health = other.health = Health("down")
            await clocked.pass_s(4)
            assert not silence.was_down
            await clocked.pass_s(1)
            assert silence.was_down
            assert silence.call.interrupted is None
            other.health = Health("up")
            rank.health = Health("up")
            await clocked.pass_s(0)
    assert silence.call.interrupted == "lost"
    assert clocked.engine.asked == 0


async def test_who_spoke_again_or_was_held_meanwhile_was_not_down() -> None:
    """What comes after counts from there."""
    clocked = Clocked(Paused())
    rank, _ = clocked.beside_another()
    rank.health = Health("down")
    with clocked.stalls.watched(clocked.call()) as silence:
        for held in (None, "all"):
            assert not await clocked.told(silence, 0, 4)
            with silence.listening():
                clocked.backends.gate.set("all" if held else None)
                await clocked.pass_s(0)
                await clocked.pass_s(60)
                clocked.backends.gate.set(None)
                await clocked.pass_s(4)
                assert (silence.call.interrupted == "lost") is (held is None)
                silence.call.interrupted = None


async def test_when_everything_is_silent_nothing_has_stalled() -> None:
    """Four at most are believed of the eight, and for a minute no more."""
    clocked = Clocked(Paused())
    silences = []
    for _ in range(8):
        with clocked.stalls.watched(clocked.call()) as silence:
            pass
        silence.begun = True
        silences.append(silence)
    clocked.now_s += 61
    clocked.stalls._silences.update(silences)
    for silence in silences:
        silence._listens = True
    await clocked.pass_s(0)
    await clocked.pass_s(10)
    assert sum(silence.call.interrupted is not None for silence in silences) == 4


async def test_what_ends_while_its_engine_is_asked_has_not_stalled() -> None:
    """Nor what speaks again."""

    class Slow(Paused):
        async def get(self, path: str, *, limit_s: float = 1.0) -> tuple[int, bytes]:
            await asyncio.sleep(0.01)
            return await super().get(path, limit_s=limit_s)

    clocked = Clocked(Slow())
    with clocked.stalls.watched(clocked.call()) as silence:
        silence.begun = True
        with silence.listening():
            await clocked.pass_s(0)
            looking = asyncio.ensure_future(clocked.pass_s(10))
            await asyncio.sleep(0)
        await looking
    assert silence.call.interrupted is None
