"""While an answer waits to be gone on with, its client may leave, and its session may end: nothing of it is left then."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import pytest

from gateway.sim import FAULTS, JOURNAL, create_sim
from tests.edge.house import HELLO, Answer, Application, House, Json, OpenHouse, generated, serving, until, user
from tests.edge.obstacle import Obstacle
from tests.edge.pair import SAID, open_pair
from tests.edge.streams import Streamed, stream

LONG: Json = {"ignore_eos": True, "max_tokens": 6}
WHERE = ["back-off", "line"]


@dataclass(frozen=True, slots=True)
class Waiting:
    """An answer of session ``s`` that has three ids, and waits."""

    house: House
    sim: Application
    obstacle: Obstacle
    asking: "asyncio.Task[Answer | Streamed]"

    async def leaves_nothing(self) -> None:
        """Neither a lease, nor a place in line, nor a call."""

        async def is_idle() -> bool:
            names = ("gateway_turns_in_flight", "gateway_turns_held")
            return [await self.house.metric(name) for name in names] == [0, 0] and not self.sim[JOURNAL].running

        await self.house.send("POST", "/admin/pause", mode="hold")  # while turns are held those that wait are counted
        await until(is_idle)
        await self.house.send("POST", "/admin/resume")
        calls = len(generated(self.sim))
        self.obstacle.thaw()
        assert (await self.house.ask("other", [user("And I?")])).status == 200
        assert len(generated(self.sim)) == calls + 1


@asynccontextmanager
async def interrupted(
    open_house: OpenHouse, monkeypatch: pytest.MonkeyPatch, where: str, *, streams: bool = False, **settings: object
) -> AsyncIterator[Waiting]:
    """An answer that waits for its next call, or for its engine to come back."""
    monkeypatch.setattr("gateway.core.resume._BACK_OFF_S", 1.0 if where == "back-off" else 0.0)
    monkeypatch.setattr("gateway.edge.checks.PATIENCE_S", 0.2)
    monkeypatch.setattr("gateway.edge.checks._DOWN_INTERVAL_S", 0.1)
    sim = create_sim()
    obstacle = Obstacle(sim)
    async with serving(sim) as server:
        house = await open_house(
            engine=(str(server.make_url("")),), resume_attempts=5, health_interval_s=0.2, **settings
        )
        sim[FAULTS].inject("abort", after=3)
        sim[FAULTS].inject("abort" if where == "back-off" else "stall", after=0)
        asked = stream(house, "s", **LONG) if streams else house.ask("s", **LONG)
        asking: asyncio.Task[Answer | Streamed] = asyncio.ensure_future(asked)
        try:
            await until(lambda: len(generated(sim)) == 2)
            if where == "line":
                obstacle.freeze()
                for connection in server.handler.connections:
                    connection.force_close()
                await until(lambda: is_down(house))
            await until(lambda: not sim[JOURNAL].running)
            yield Waiting(house, sim, obstacle, asking)
        finally:
            obstacle.thaw()
            asking.cancel()
            await asyncio.gather(asking, return_exceptions=True)


async def is_down(house: House) -> bool:
    """Whether its engine is, and no turn holds it."""
    (engine,) = (await house.send("GET", "/admin/engines")).body["data"]
    return engine["ranks"][0]["health"] == "down" and await house.metric("gateway_turns_in_flight") == 0


@pytest.mark.parametrize("streams", [False, True])
@pytest.mark.parametrize("where", WHERE)
async def test_a_client_that_hangs_up_leaves_what_was_sampled(
    open_house: OpenHouse, monkeypatch: pytest.MonkeyPatch, where: str, *, streams: bool
) -> None:
    """As an aborted turn; nobody samples for it any more."""
    async with interrupted(open_house, monkeypatch, where, streams=streams) as waiting:
        waiting.asking.cancel()
        await waiting.leaves_nothing()
        (turn,) = await waiting.house.turns("s")

    assert (turn["status"], turn["ended_by"], turn["completion_tokens"]) == ("aborted", "client_gone", 3)


@pytest.mark.parametrize("where", WHERE)
async def test_a_session_that_is_finished_meanwhile_gets_its_answer_still(
    open_house: OpenHouse, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    """As any turn in flight does."""
    async with interrupted(open_house, monkeypatch, where) as waiting:
        finished = await waiting.house.send("POST", "/sessions/s/finish", reward=1.0)
        waiting.obstacle.thaw()
        answer = await asyncio.wait_for(waiting.asking, 8)
        await waiting.leaves_nothing()
        (row,) = await waiting.house.rows("s")

    assert (finished.status, answer.status, row["reward"]) == (200, 200, 1.0)
    assert row["token_ids"][-6:] == SAID * 2


@pytest.mark.parametrize("where", WHERE)
async def test_a_session_that_is_deleted_meanwhile_leaves_nothing(
    open_house: OpenHouse, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    """Its client is told; when its tombstone is forgotten the id is anybody's."""
    async with interrupted(open_house, monkeypatch, where, tombstone_ttl_s=0.0) as waiting:
        deleted = await waiting.house.send("DELETE", "/sessions/s")
        answer = await asyncio.wait_for(waiting.asking, 2)
        await waiting.leaves_nothing()
        assert isinstance(answer, Answer)
        assert (deleted.status, answer.status, answer.error["code"]) == (204, 409, "session_closed")
        assert await waiting.house.turns("s") == []
        assert (await waiting.house.ask("s", HELLO)).status == 200


async def test_a_pause_is_no_stall(open_house: OpenHouse) -> None:
    """Engines that are frozen under control say nothing, for as long as it lasts and a while after."""
    settings: Json = {"engine_stall_s": 0.1, "engine_control": True}
    async with open_pair(open_house, sim={"token_delay_s": 0.005}, **settings) as pair:
        asking = asyncio.ensure_future(pair.ask(streams=True, ignore_eos=True, max_tokens=100))
        await until(lambda: pair.calls and len(pair.calls[0].emitted) > 4)
        assert (await pair.house.send("POST", "/admin/pause", mode="hold")).status == 200
        await asyncio.sleep(0.4)
        assert not asking.done()
        await pair.house.send("POST", "/admin/resume")
        told = await asking
        (turn,) = await pair.turns()

    assert (told.status, turn["completion_tokens"], turn["cuts"]) == (200, 100, [])


@pytest.mark.parametrize("controls", [False, True])
async def test_a_stream_that_a_pause_cuts_is_one_stream(open_house: OpenHouse, *, controls: bool) -> None:
    """Be it cut by us or by the engine itself; it is kept alive meanwhile, and the second call waits for the end."""
    settings: Json = {"engine_control": controls, "keep_alive_s": 0.05, "resume_attempts": 1}
    async with open_pair(open_house, sim={"token_delay_s": 0.005}, **settings) as pair:
        asking = asyncio.ensure_future(
            stream(pair.house, "s", HELLO, ignore_eos=True, max_tokens=100, return_token_ids=True)
        )
        await until(lambda: pair.calls and len(pair.calls[0].emitted) > 20)
        assert (await pair.house.send("POST", "/admin/pause", mode="cut")).status == 200
        assert all(not sim[JOURNAL].running for sim in pair.sims.values())
        await asyncio.sleep(0.2)
        assert (len(pair.calls), asking.done()) == (1, False)
        await pair.house.send("POST", "/admin/resume", version="7")
        streamed = await asking
        (turn,) = await pair.turns()

    assert (streamed.status, streamed.done, streamed.error) == (200, True, None)
    assert streamed.comments >= 2
    assert streamed.choice()["token_ids"] == turn["completion_ids"]
    assert len(turn["completion_ids"]) == 100
    assert [cut["reason"] for cut in turn["cuts"]] == ["pause"]
