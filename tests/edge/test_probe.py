"""Of what an engine returns logprobs is found out by its behaviour, when a turn's exactness hangs on it."""

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest
from aiohttp.test_utils import unused_port
from structlog.testing import capture_logs

from gateway.edge.gate import Gate
from gateway.edge.probe import Probes
from gateway.errors import EngineUnavailable, LogprobsUntold
from gateway.sim import FAULTS, create_sim
from gateway.wire.probe import LogprobsFinding
from tests.edge.house import generated, probes, serving, until
from tests.edge.probing import PROCESSED, Bench, slow_sim


@pytest.mark.parametrize(
    ("sim", "mode", "why"),
    [
        ({"logprobs_mode": "raw_logprobs"}, "raw", ""),
        (PROCESSED, "processed", ""),
        ({"ranks": 2, **PROCESSED}, "processed", ""),
        ({"sampling_mask": True, **PROCESSED}, "processed", ""),
        ({"version": "0.20.2"}, "unknown", "0.22"),
        ({"scale_out": False}, "unknown", "--enable-scale-out"),
    ],
)
async def test_a_mode_is_found_out_or_why_it_is_not(sim: Mapping[str, Any], mode: str, why: str) -> None:
    """Two calls for one token each tell; an operator is told of every mode but the good one, with the remedy."""
    app = create_sim(**sim)
    with capture_logs() as lines:
        async with serving(app) as server, Bench(f"{server.make_url('')}#dp={sim.get('ranks', 1)}") as bench:
            await bench.ask()
            assert bench.mode == mode
            assert why in bench.engine.logprobs.reason

    (line,) = (line for line in lines if "mode" in line)
    assert line["log_level"] == ("info" if mode == "processed" else "warning")
    assert ("processed_logprobs" in line.get("remedy", "")) is (mode != "processed")
    assert len(probes(app)) == (2 if mode != "unknown" else 0)
    assert generated(app) == []


async def test_what_is_no_logprob_is_unknown() -> None:
    """A positive one is no evidence of anything."""
    app = create_sim()
    async with serving(app) as server, Bench(str(server.make_url(""))) as bench:
        app[FAULTS].inject(kind="positive_logprob")
        await bench.ask()
        assert bench.mode == "unknown"
        assert "logprob" in bench.engine.logprobs.reason


async def test_an_engine_that_does_not_say_is_asked_less_and_less_often() -> None:
    """And one that did after minutes; then it may say something else, but silence changes nothing."""
    app = create_sim(**PROCESSED)
    async with serving(app) as server, Bench(str(server.make_url(""))) as bench:
        pauses: list[float] = []
        app[FAULTS].inject(kind="error_503", times=8)
        for _ in range(9):
            assert bench.is_due
            await bench.ask()
            at_s = bench.clock.now_s
            while not bench.is_due:
                bench.clock.now_s += 1
            pauses.append(bench.clock.now_s - at_s)

        assert pauses == [2, 4, 8, 16, 32, 64, 128, 256, 300]
        assert bench.mode == "processed"
        bench.clock.now_s += 300
        app[FAULTS].inject(kind="positive_logprob")
        await bench.ask()
        assert bench.mode == "processed"


async def test_an_engine_whose_answer_is_none_is_left_alone_for_a_while_though_it_was_away() -> None:
    """Or each cut of a call would have it sample a token that tells nothing."""
    app = create_sim(**PROCESSED)
    async with serving(app) as server, Bench(str(server.make_url(""))) as bench:
        app[FAULTS].inject(kind="positive_logprob")
        await bench.ask()
        for _ in range(2):
            await bench.engine.refresh()
            assert not bench.is_due
        bench.clock.now_s += 29
        assert not bench.is_due
        bench.clock.now_s += 1
        assert bench.is_due


async def test_an_engine_that_was_away_may_be_another() -> None:
    """It is asked again when it is back, and until then nothing is said of it; so as soon as its call is dropped."""
    port = unused_port()
    async with serving(create_sim(**PROCESSED), port=port) as server, Bench(str(server.make_url(""))) as bench:
        await bench.ask()
        assert (bench.mode, bench.is_due) == ("processed", False)
    async with serving(create_sim(), port=port) as server, Bench(str(server.make_url(""))) as bench:
        await bench.ask()
        assert bench.mode == "raw"
        bench.engine.doubted = True  # as a dropped call leaves it
        assert not bench.is_due
        await bench.backends.refresh()
        assert (bench.mode, bench.is_due) == ("untold", True)


async def test_a_paused_engine_holds_nobody_up_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those who must know are told to come again, and the engine keeps its turns."""
    monkeypatch.setattr("gateway.edge.probe.PATIENCE_S", 0.05)
    app = create_sim(**PROCESSED)
    async with serving(app) as server, Bench(str(server.make_url(""))) as bench:
        await bench.engine.post("/pause")
        waiting = [bench.probes.settle(bench.engine) for _ in range(3)]
        told = await asyncio.gather(*waiting, return_exceptions=True)
        assert [type(error) for error in told] == [LogprobsUntold] * 3
        await until(lambda: not bench.probes.under_way)
        assert (bench.mode, bench.is_due) == ("untold", False)
        assert "paused" in bench.engine.logprobs.reason
        assert bench.engine.max_model_len is not None
        assert len(probes(app)) == 1  # who comes while it is asked waits for the same answer
        with pytest.raises(LogprobsUntold, match=r"not known yet.*paused") as raised:
            await bench.probes.settle(bench.engine)  # it has just been asked
        assert raised.value.rest_s == 2
        await bench.engine.post("/resume")
        monkeypatch.undo()
        bench.clock.now_s += 2
        await bench.probes.settle(bench.engine)
        assert bench.mode == "processed"


async def test_who_leaves_ends_no_probe() -> None:
    """A client that hangs up while its turn waits for one takes nothing from the turns that wait with it."""
    released = asyncio.Event()
    async with serving(slow_sim(released)) as server, Bench(str(server.make_url(""))) as bench:
        leaving, staying = [asyncio.ensure_future(bench.probes.settle(bench.engine)) for _ in range(2)]
        await asyncio.sleep(0.02)
        leaving.cancel()
        await asyncio.gather(leaving, return_exceptions=True)
        assert not bench.is_due  # it is still asked
        released.set()
        await staying
        assert (leaving.cancelled(), bench.mode) == (True, "processed")


async def test_who_waits_for_an_engine_that_becomes_another_one_is_told_of_that() -> None:
    """What was asked of the one before ends, and the one that there is now is asked at once."""
    released = asyncio.Event()
    async with serving(slow_sim(released)) as server, Bench(str(server.make_url(""))) as bench:
        bench.probes.begin(bench.engine)
        await asyncio.sleep(0.02)
        await bench.engine.refresh()
        settling = asyncio.ensure_future(bench.probes.settle(bench.engine))
        await asyncio.sleep(0.02)
        await bench.engine.refresh()
        assert bench.is_due
        released.set()
        await settling
        assert bench.mode == "processed"


async def test_what_was_found_out_of_the_engine_that_there_was_is_not_said_of_this_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Though the probe came to its end after the engine had become another one."""
    async with serving(create_sim(**PROCESSED)) as server, Bench(str(server.make_url(""))) as bench:

        async def overtaken(*_: object) -> LogprobsFinding:
            await bench.engine.refresh()
            return LogprobsFinding("raw")

        with monkeypatch.context() as patched:
            patched.setattr("gateway.edge.probe.probed", overtaken)
            await bench.ask()
        assert (bench.mode, bench.is_due) == ("untold", True)


async def test_an_engine_that_was_removed_is_asked_nothing_more() -> None:
    """And nothing is kept of it."""
    async with serving(slow_sim(asyncio.Event())) as server, Bench(str(server.make_url(""))) as bench:
        bench.probes.begin(bench.engine)
        await asyncio.sleep(0.02)
        bench.probes.forget(bench.engine)
        await until(lambda: not bench.probes.under_way)


async def test_a_probe_that_fails_in_whatever_way_is_logged(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without what was in hand; and the engine is asked again."""
    async with serving(create_sim(**PROCESSED)) as server, Bench(str(server.make_url(""))) as bench:
        with capture_logs() as lines, monkeypatch.context() as broken:
            broken.setattr("gateway.edge.probe.mode_of", lambda *_: 1 / 0)
            await bench.ask()
        assert bench.engine.logprobs.reason == "the probe failed, see the log"
        assert [line["log_level"] for line in lines if line["event"] == "a probe failed"] == ["error"]
        with pytest.raises(LogprobsUntold):
            await bench.probes.settle(bench.engine)
        bench.clock.now_s += 2
        await bench.ask()
        assert bench.mode == "processed"


@pytest.mark.parametrize("fault", ["error_500", "positive_logprob", "garbage", "not_found"])
async def test_an_error_finds_out_nothing(fault: str) -> None:
    """Another time may tell more, so who must know is told to come again, and then it is known."""
    app = create_sim(**PROCESSED)
    async with serving(app) as server, Bench(str(server.make_url(""))) as bench:
        app[FAULTS].inject(fault)
        with pytest.raises(EngineUnavailable, match="not known yet"):
            await bench.probes.settle(bench.engine)
        bench.clock.now_s += 2
        await bench.probes.settle(bench.engine)
        assert bench.mode == "processed"
        app[FAULTS].inject(fault)
        bench.clock.now_s += 300
        await bench.ask()
        assert bench.mode == "processed"


async def test_what_cannot_be_told_apart_is_found_out_to_be_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """To ask once more would not help, and who must know goes on with that; an error later does not make it less."""
    monkeypatch.setattr("gateway.edge.probe.mode_of", lambda *_: LogprobsFinding("unknown", "all alike"))
    app = create_sim()
    async with serving(app) as server, Bench(str(server.make_url(""))) as bench:
        await bench.probes.settle(bench.engine)
        app[FAULTS].inject("error_500")
        bench.clock.now_s += 2
        await bench.ask()
        bench.clock.now_s += 2
        await bench.probes.settle(bench.engine)
        assert bench.engine.logprobs == LogprobsFinding("unknown", "all alike")
        assert len(probes(app)) == 3


async def test_a_probe_that_the_gate_overtakes_asks_nothing() -> None:
    """It was decided on when turns were not held; when they are not any more, it is due."""
    app = create_sim(**PROCESSED)
    async with serving(app) as server, Bench(str(server.make_url(""))) as bench:
        gate = Gate()
        held = Probes([1, 2, 3], bench.clock, gate)
        held.begin(bench.engine)
        gate.set("all")
        await until(lambda: not held.under_way)
        assert (gate.sampling, probes(app)) == (0, [])
        gate.set(None)
        assert held.is_due(bench.engine)
