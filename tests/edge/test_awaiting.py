"""A turn waits for an engine that was there and is away, where answers are carried on; else it is refused at once."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from aiohttp.test_utils import unused_port
from structlog.testing import capture_logs

from gateway.errors import EngineUnavailable
from gateway.sim import create_sim
from tests.edge.house import HELLO, House, OpenHouse, generated, serving, until, waiting
from tests.edge.pooling import Known, leased, pooled, settle


@asynccontextmanager
async def bereft(open_house: OpenHouse, **settings: object) -> AsyncIterator[tuple[House, int]]:
    """A gateway whose only engine has answered a turn and is gone, and the engine's port."""
    port = unused_port()
    async with serving(create_sim(), port=port):
        settings = {"engine": (f"http://127.0.0.1:{port}",), "health_interval_s": 0.05, **settings}
        house = await open_house(**settings)
        assert (await house.ask("warm")).status == 200

    async def is_away() -> bool:
        return (await house.call("GET", "/ready")).status == 503

    await until(is_away)
    yield house, port
    await house.http.close()


async def test_a_first_call_waits_for_an_engine_that_is_away(open_house: OpenHouse) -> None:
    """And is sampled as soon as that serves again."""
    async with (
        bereft(open_house, resume_attempts=5) as (house, port),
        waiting(house, "new") as asked,
        waiting(house, "warm") as again,
    ):
        await asyncio.sleep(0.2)
        assert [asked.done(), again.done()] == [False, False]
        sim = create_sim()
        async with serving(sim, port=port):
            assert [(await each).status for each in (asked, again)] == [200, 200]
            assert len(generated(sim)) == 2


async def test_its_stream_is_kept_alive(open_house: OpenHouse) -> None:
    """As while it waits for anything else."""
    async with bereft(open_house, resume_attempts=5, keep_alive_s=0.05) as (house, port):
        url = house.http.make_url("/sessions/new/v1/chat/completions")
        async with house.http.session.post(url, json={"messages": HELLO, "stream": True}) as response:
            assert response.status == 200
            assert (await response.content.readline()).startswith(b":")
            async with serving(create_sim(), port=port):
                rest = await response.content.read()
        assert rest.endswith(b"data: [DONE]\n\n")
        assert b'"error"' not in rest


async def test_who_hangs_up_meanwhile_leaves_nothing(open_house: OpenHouse) -> None:
    """No turn, and nobody who waits."""
    async with bereft(open_house, resume_attempts=5, disconnect_grace_s=0) as (house, port):
        tasks = len(asyncio.all_tasks())
        async with waiting(house, "new"):
            await asyncio.sleep(0.1)
        sim = create_sim()
        async with serving(sim, port=port):
            assert (await house.ask("other")).status == 200
            assert len(generated(sim)) == 1
        assert await house.turns("new") == []
        await until(lambda: len(asyncio.all_tasks()) <= tasks + 1)


async def test_it_waits_no_longer_than_it_may(open_house: OpenHouse) -> None:
    """And then is 503, to be tried again."""
    async with bereft(open_house, resume_attempts=5, queue_wait_s=0.2) as (house, _):
        refused = await house.ask("new")
        assert (refused.status, refused.error["code"]) == (503, "engine_unavailable")
        assert "within 0.2 s" in refused.error["message"]
        assert int(refused.headers["Retry-After"]) >= 1


@pytest.mark.parametrize("attempts", [0, 5])
async def test_where_there_is_nothing_to_wait_for_it_is_refused_at_once(open_house: OpenHouse, attempts: int) -> None:
    """No engine has ever answered, or answers are not carried on, or all are drained."""
    never = await open_house(engine=(f"http://127.0.0.1:{unused_port()}",), resume_attempts=attempts)
    assert (await never.ask("new")).status == 503
    async with bereft(open_house, resume_attempts=attempts) as (house, port):
        if attempts:
            url = f"http://127.0.0.1:{port}"
            assert (await house.send("POST", "/admin/engines", url=url, draining=True)).status == 200
        async with asyncio.timeout(5):
            assert (await house.ask("new")).status == 503


async def test_an_engine_that_is_drained_or_removed_is_not_waited_for_any_more() -> None:
    """Nor are more who wait for it than may wait for a rank."""
    engine = Known("a")
    async with pooled(engine, queue_turns=3) as pool:
        engine.up = False
        await pool.backends.checks.ask(engine)
        calls = [pool.call(f"s{at}", awaits_engine=True) for at in range(5)]
        await settle()
        assert [call.task.done() for call in calls] == [False, False, False, True, True]
        with pytest.raises(EngineUnavailable, match="--queue-turns"):
            await calls[3].task
        pool.backends.drain_engine(engine, draining=True)
        for call in calls[:3]:
            with pytest.raises(EngineUnavailable, match="no engine answers"):
                await call.task
        pool.backends.drain_engine(engine, draining=False)
        again = pool.call("t", awaits_engine=True)
        await settle()
        engine.up = True
        await pool.backends.checks.ask(engine)
        await settle()
        assert leased(again) == [True]


async def test_that_no_engine_answers_is_said_once_and_that_one_does_again() -> None:
    """However many calls are refused for it."""
    engine = Known("a", up=False)
    with capture_logs() as lines:
        async with pooled(engine) as pool:
            for at in range(3):
                with pytest.raises(EngineUnavailable, match="a is down"):
                    await pool.call(f"s{at}").task
            engine.up = True
            await pool.backends.checks.ask(engine)
    said = [line["event"] for line in lines if "answer" in line["event"]]
    assert said == ["no engine answers", "engines answer again"]


async def test_an_expected_refusal_is_one_line_without_a_traceback(open_house: OpenHouse) -> None:
    """It tells of nothing that went wrong in the gateway."""
    house = await open_house(engine=(f"http://127.0.0.1:{unused_port()}",))
    with capture_logs() as lines:
        assert (await house.ask("s")).status == 503
    (failed,) = [line for line in lines if line["event"] == "failed"]
    assert "traceback" not in failed
