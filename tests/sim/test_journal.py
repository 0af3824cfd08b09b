"""The journal tells what the engine was sent, and how far each answer got."""

import asyncio

import pytest

from tests.sim.conftest import eventually


async def test_the_journal_keeps_what_was_received(start):
    """Headers have lower-case names, the body is as sent, and a refused request is listed too."""
    sim = await start()
    body = {**sim.ask([5]), "anything": {"else": [1]}}
    await sim.post(body, headers={"X-Request-Id": "r1", "X-Data-Parallel-Rank": "2"})
    await sim.post({})
    first, second = await sim.get("/sim/journal")
    assert (first["request_id"], first["headers"]["x-data-parallel-rank"], first["body"]) == ("r1", "2", body)
    assert (first["token_ids"], first["fault"]) == ([1, 2, 3], None)
    assert (second["token_ids"], second["emitted"], second["finished"]) == (None, [], False)
    await sim.http.delete("/sim/journal")
    assert await sim.get("/sim/journal") == []


@pytest.mark.parametrize("stream", [False, True])
async def test_a_client_that_leaves_is_seen_in_the_journal(start, stream):
    """Its request stops running at once, and the journal tells how far the answer had got."""
    sim = await start(token_delay_s=0.02)
    log = sim.log
    call = asyncio.create_task(sim.payloads(sim.ask(list(range(1000)), stream=stream)))
    await eventually(lambda: log.running == 1 and (not stream or len(log.entries[0].emitted) >= 2))
    call.cancel()
    await eventually(lambda: log.running == 0)
    [entry] = await sim.get("/sim/journal")
    assert (entry["finished"], entry["disconnected"]) == (False, True)
    assert entry["emitted"] == list(range(len(entry["emitted"])))
    assert len(entry["emitted"]) < 1000
    assert " 0.0\n" in await sim.metrics()


async def test_requests_in_flight_are_counted(start):
    """The gauge is the number of answers under way."""
    sim = await start(token_delay_s=0.02)
    calls = [asyncio.create_task(sim.whole(sim.ask(list(range(1000))))) for _ in range(3)]
    await eventually(lambda: sim.log.running == 3)
    assert 'model_name="sim"} 3.0\n' in await sim.metrics()
    for call in calls:
        call.cancel()


async def test_a_stalled_stream_waits_until_the_client_leaves(start):
    """After the tokens asked for nothing comes, not even the end."""
    sim = await start()
    await sim.inject("stall", after=1)
    log = sim.log
    call = asyncio.create_task(sim.payloads(sim.ask([5, 6], stream=True)))
    await eventually(lambda: bool(log.entries) and log.entries[0].emitted == [5])
    done, _ = await asyncio.wait([call], timeout=0.05)
    assert not done
    call.cancel()
    await eventually(lambda: log.running == 0)
    assert (log.entries[0].emitted, log.entries[0].disconnected) == ([5], True)
