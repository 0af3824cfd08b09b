"""Pause, resume, abort and new weights, in the middle of requests."""

import asyncio

import pytest

from tests.sim.conftest import eventually

LONG = list(range(400))


class Under:
    """A request under way, of which some tokens have been sampled."""

    def __init__(self, sim, *, stream=True, request_id="r1") -> None:
        self.sim = sim
        body = {**sim.ask(LONG, stream=stream), "request_id": request_id}
        self.call = asyncio.create_task(sim.choices(body))

    async def reached(self, count: int):
        """Wait until so many tokens were sent."""
        await eventually(lambda: bool(self.sim.log.entries) and len(self.sim.log.entries[-1].emitted) >= count)
        return self

    async def ids(self) -> list[int]:
        """All ids of the answer."""
        return [token_id for choice in await self.call for token_id in choice["token_ids"]]


async def post(sim, path, body=None):
    """A command to the engine; its JSON."""
    response = await sim.http.post(path, json=body)
    return await response.json() if await response.read() else None


async def test_a_pause_that_aborts_ends_what_runs_and_holds_what_comes(start):
    """Partial answers say "abort"; a new request waits for /resume; health does not change."""
    sim = await start(token_delay_s=0.002)
    under = await Under(sim).reached(3)
    assert await post(sim, "/pause") == {"status": "paused"}
    choices = await under.call
    assert choices[-1]["finish_reason"] == "abort"
    assert choices[-1]["token_ids"] != []  # the token that was being sampled still came
    assert await under.ids() == LONG[: len(await under.ids())]
    assert await sim.get("/is_paused") == {"is_paused": True}
    held = asyncio.create_task(sim.whole(sim.ask([5])))
    await asyncio.sleep(0.03)
    assert not held.done()
    assert (await sim.http.get("/health")).status == 200
    assert await post(sim, "/resume") == {"status": "resumed"}
    assert (await held)["token_ids"] == [5]
    assert await sim.get("/is_paused") == {"is_paused": False}


async def test_a_pause_that_waits_returns_when_nothing_runs_any_more(start):
    """What ran is whole."""
    sim = await start(token_delay_s=0.0005)
    under = await Under(sim).reached(1)
    await post(sim, "/pause?mode=wait")
    assert sim.log.entries[0].finished
    assert await under.ids() == LONG


async def test_a_pause_that_keeps_freezes_and_goes_on(start):
    """No token comes while it lasts, and none is lost."""
    sim = await start(token_delay_s=0.001)
    under = await Under(sim).reached(3)
    await post(sim, "/pause?mode=keep")
    await asyncio.sleep(0.02)
    frozen = len(sim.log.entries[0].emitted)
    await asyncio.sleep(0.05)
    assert len(sim.log.entries[0].emitted) == frozen < 400
    await post(sim, "/resume")
    assert await under.ids() == LONG


async def test_a_mode_that_does_not_exist_is_refused(start):
    """With vLLM's 400, and nothing is paused."""
    sim = await start()
    response = await sim.http.post("/pause?mode=zzz")
    assert (response.status, (await response.json())["error"]["param"]) == (400, "query.mode")
    assert await sim.get("/is_paused") == {"is_paused": False}


@pytest.mark.parametrize("stream", [False, True])
async def test_a_request_is_aborted_by_the_id_that_the_engine_gave_it(start, stream):
    """That is the client's id with a prefix; the id without it ends nothing, and both are a 200 without a body."""
    sim = await start(token_delay_s=0.002)
    under = Under(sim, stream=stream)
    await eventually(lambda: sim.log.running == 1)
    await asyncio.sleep(0.03)
    for name in ("r1", "generate-tokens-r1"):
        assert await post(sim, "/inference/v1/abort_requests", {"request_ids": [name]}) is None
        await asyncio.sleep(0.01)
        assert under.call.done() == (name != "r1")
    last = (await under.call)[-1]
    assert last["finish_reason"] == "abort"
    assert last["weight_versions"][0]["end"] == len(await under.ids())
    assert not stream or last["token_ids"] == []
    assert 'finished_reason="abort",model_name="sim"} 1.0\n' in await sim.metrics()


async def test_a_request_is_aborted_in_the_queue_or_while_frozen(start):
    """Wherever it waits, an abort ends it at once, without a token if it has none."""
    sim = await start(max_running=1, token_delay_s=0.002)
    running, waiting = Under(sim), Under(sim, request_id="r2")
    await eventually(lambda: len(sim.log.entries) == 2)
    await post(sim, "/pause?mode=keep")
    await post(sim, "/inference/v1/abort_requests", {"request_ids": ["generate-tokens-r2"]})
    [choice] = await waiting.call
    assert (choice["token_ids"], choice["finish_reason"]) == ([], "abort")
    assert not running.call.done()
    assert await post(sim, "/abort_requests", {}) == {"status": "aborted", "aborted": 1}
    assert (await running.call)[-1]["finish_reason"] == "abort"
    assert await post(sim, "/abort_requests", {}) == {"status": "aborted", "aborted": 0}


async def test_a_request_that_is_held_by_a_pause_can_be_aborted(start):
    """It ends at once, without having been on a rank; its place is free for others after /resume."""
    sim = await start()
    await post(sim, "/pause")
    under = Under(sim, stream=False)
    await eventually(lambda: sim.log.running == 1)
    await post(sim, "/inference/v1/abort_requests", {"request_ids": ["generate-tokens-r1"]})
    assert (await under.ids(), (await under.call)[0]["finish_reason"]) == ([], "abort")
    [entry] = await sim.get("/sim/journal")
    assert (entry["cached_tokens"], entry["prefilled_tokens"]) == (0, 0)
    await post(sim, "/resume")
    assert (await sim.whole(sim.ask([5])))["token_ids"] == [5]


async def test_before_0_32_a_stream_aborted_by_id_just_ends(start):
    """Its last event had no ids, and such events were lost."""
    sim = await start(version="0.31.0", token_delay_s=0.002)
    under = await Under(sim).reached(2)
    await post(sim, "/abort_requests", {"request_ids": ["generate-tokens-r1"]})
    assert {choice["finish_reason"] for choice in await under.call} == {None}


async def test_spans_tell_which_weights_sampled_which_tokens(start):
    """A version announced midway takes over from the next token; the spans tile the output."""
    sim = await start(token_delay_s=0.002)
    assert await sim.get("/weight_info") == {"weight_version": "default"}
    under = await Under(sim).reached(3)
    assert await post(sim, "/update_weight_version", {"new_version": "step-1"}) == {
        "success": True,
        "new_version": "step-1",
    }
    await asyncio.sleep(0.02)
    await post(sim, "/abort_requests", {})
    first, second = (await under.call)[-1]["weight_versions"]
    assert (first["version"], first["start"], second["version"]) == ("default", 0, "step-1")
    assert 3 <= first["end"] == second["start"] < second["end"] == len(await under.ids())
    assert (await sim.whole(sim.ask([5])))["weight_versions"] == [{"version": "step-1", "start": 0, "end": 1}]
    assert (await sim.http.post("/update_weight_version", json={})).status == 400


@pytest.mark.parametrize(
    ("path", "before", "since"),
    [
        ("/abort_requests", "0.25.0", "0.26.0"),
        ("/update_weight_version", "0.26.1", "0.27.0"),
        ("/inference/v1/abort_requests", "0.31.0", "0.32.0"),
    ],
)
async def test_a_route_is_not_there_before_its_release(start, path, before, since):
    """Then it is a 404 as for any path that nobody knows."""
    old, new = await start(version=before), await start(version=since)
    body = {"request_ids": [], "new_version": "v"}
    response = await old.http.post(path, json=body)
    assert (response.status, await response.json()) == (404, {"detail": "Not Found"})
    assert (await new.http.post(path, json=body)).status == 200
