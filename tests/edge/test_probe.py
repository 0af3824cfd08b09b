"""Of what an engine returns logprobs is found out by its behaviour, and nothing waits for it."""

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import unused_port
from structlog.testing import capture_logs

from gateway.edge.backends import Backends
from gateway.edge.engine import Engine
from gateway.edge.metrics import Metrics
from gateway.edge.probe import Probes
from gateway.errors import EngineUnavailable
from gateway.sim import FAULTS, create_sim
from gateway.wire.probe import LogprobsFinding
from tests.edge.house import Application, OpenHouse, generated, probes, serving, until

PROCESSED: Mapping[str, Any] = {"logprobs_mode": "processed_logprobs"}


class Clock:
    """Time that passes when it is told to."""

    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


class Bench:
    """One engine and its probes, without a gateway."""

    def __init__(self, url: str) -> None:
        self.clock = Clock()
        self.engine = Engine(url)
        self.probes = Probes([1, 2, 3], self.clock)
        self.backends = Backends([self.engine], Metrics(), self.probes.admit)

    async def __aenter__(self) -> "Bench":
        await self.backends.refresh()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.probes.close()
        await self.backends.close()

    @property
    def mode(self) -> str:
        """What is known of the engine."""
        return self.engine.logprobs.mode

    @property
    def is_due(self) -> bool:
        """Whether it is to be asked now."""
        return self.probes.is_due(self.engine)


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
            await bench.probes.ask(bench.engine)
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
    app[FAULTS].inject(kind="positive_logprob")
    async with serving(app) as server, Bench(str(server.make_url(""))) as bench:
        await bench.probes.ask(bench.engine)
        assert bench.mode == "unknown"
        assert "logprob" in bench.engine.logprobs.reason


async def test_an_engine_that_does_not_say_is_asked_less_and_less_often() -> None:
    """And one that did after minutes; then it may say something else, but silence changes nothing."""
    app = create_sim(**PROCESSED)
    async with serving(app) as server, Bench(str(server.make_url(""))) as bench:
        pauses: list[float] = []
        app[FAULTS].inject(kind="positive_logprob", times=8)
        for _ in range(9):
            assert bench.is_due
            await bench.probes.ask(bench.engine)
            at_s = bench.clock.now_s
            while not bench.is_due:
                bench.clock.now_s += 1
            pauses.append(bench.clock.now_s - at_s)

        assert pauses == [2, 4, 8, 16, 32, 64, 128, 256, 300]
        assert bench.mode == "processed"
        app[FAULTS].inject(kind="positive_logprob")
        await bench.probes.ask(bench.engine)
        assert bench.mode == "processed"


async def test_an_engine_that_was_away_may_be_another() -> None:
    """It is asked again when it is back, and until then nothing is said of it; so as soon as its call is dropped."""
    port = unused_port()
    async with serving(create_sim(**PROCESSED), port=port) as server, Bench(str(server.make_url(""))) as bench:
        await bench.probes.ask(bench.engine)
        assert (bench.mode, bench.is_due) == ("processed", False)
    async with serving(create_sim(), port=port) as server, Bench(str(server.make_url(""))) as bench:
        await bench.probes.ask(bench.engine)
        assert bench.mode == "raw"
        bench.engine.max_model_len = None  # as a dropped call leaves it
        assert not bench.is_due
        await bench.backends.refresh()
        assert (bench.mode, bench.is_due) == ("unknown", True)


async def test_a_paused_engine_holds_up_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The start goes on, those who must know are told to come again, and the engine keeps its turns."""
    monkeypatch.setattr("gateway.edge.probe._START_S", 0.01)
    monkeypatch.setattr("gateway.edge.probe.PATIENCE_S", 0.05)
    app = create_sim(**PROCESSED)
    async with serving(app) as server, Bench(str(server.make_url(""))) as bench:
        async with bench.engine._call("POST", "/pause"):
            pass
        await bench.probes.begin()
        assert not bench.is_due
        await asyncio.gather(*(bench.probes.ask(bench.engine) for _ in range(3)))
        assert bench.mode == "unknown"
        assert "paused" in bench.engine.logprobs.reason
        assert bench.engine.max_model_len is not None
        assert len(probes(app)) == 1  # who comes while it is asked waits for the same answer
        with pytest.raises(EngineUnavailable, match=r"not known yet.*paused"):
            await bench.probes.settle(bench.engine)  # it has just been asked
        async with bench.engine._call("POST", "/resume"):
            pass
        monkeypatch.undo()
        bench.clock.now_s += 2
        await bench.probes.settle(bench.engine)
        assert bench.mode == "processed"


def slow_sim(released: asyncio.Event) -> Application:
    """An engine that answers probes when it is released."""

    @web.middleware
    async def slowly(request: web.Request, handler: Any) -> web.StreamResponse:
        if request.headers.get("X-Request-Id", "").startswith("probe-"):
            await released.wait()
        response: web.StreamResponse = await handler(request)
        return response

    app = create_sim(**PROCESSED)
    app.middlewares.insert(0, slowly)
    return app


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


async def test_a_probe_of_an_engine_that_was_away_is_ended() -> None:
    """What it would find out is of another one."""
    released = asyncio.Event()
    async with serving(slow_sim(released)) as server, Bench(str(server.make_url(""))) as bench:
        asked = asyncio.ensure_future(bench.probes.ask(bench.engine))
        await asyncio.sleep(0.02)
        bench.engine.max_model_len = None
        await bench.backends.refresh()
        await asked
        assert (bench.mode, bench.is_due) == ("unknown", True)


async def test_a_probe_that_fails_in_whatever_way_leaves_the_rest_at_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is logged, without what was in hand; the watch goes on, and the engine is asked again."""
    monkeypatch.setattr("gateway.edge.probe._WATCH_INTERVAL_S", 0.01)
    async with serving(create_sim(**PROCESSED)) as server, Bench(str(server.make_url(""))) as bench:
        watch = asyncio.ensure_future(bench.probes.watch())
        with capture_logs() as lines, monkeypatch.context() as broken:
            broken.setattr("gateway.edge.probe.mode_of", lambda *_: 1 / 0)
            await until(lambda: bench.engine.logprobs.reason == "the probe failed, see the log")
        assert [line["log_level"] for line in lines if line["event"] == "a probe failed"] == ["error"]
        with pytest.raises(EngineUnavailable):
            await bench.probes.settle(bench.engine)
        bench.clock.now_s += 2
        await until(lambda: bench.mode == "processed")
        watch.cancel()
        await asyncio.gather(watch, return_exceptions=True)
        assert watch.cancelled()


@pytest.mark.parametrize("fault", ["error_500", "positive_logprob", "garbage", "not_found"])
async def test_an_error_finds_out_nothing(fault: str) -> None:
    """Another time may tell more, so who must know is told to come again, and then it is known."""
    app = create_sim(**PROCESSED)
    app[FAULTS].inject(fault)
    async with serving(app) as server, Bench(str(server.make_url(""))) as bench:
        with pytest.raises(EngineUnavailable, match="not known yet"):
            await bench.probes.settle(bench.engine)
        bench.clock.now_s += 2
        await bench.probes.settle(bench.engine)
        assert bench.mode == "processed"
        app[FAULTS].inject(fault)
        await bench.probes.ask(bench.engine)
        assert bench.mode == "processed"


async def test_what_cannot_be_told_apart_is_found_out_to_be_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """To ask once more would not help, and who must know goes on with that; an error later does not make it less."""
    monkeypatch.setattr("gateway.edge.probe.mode_of", lambda *_: LogprobsFinding("unknown", "all alike"))
    app = create_sim()
    async with serving(app) as server, Bench(str(server.make_url(""))) as bench:
        await bench.probes.settle(bench.engine)
        app[FAULTS].inject("error_500")
        await bench.probes.ask(bench.engine)
        bench.clock.now_s += 2
        await bench.probes.settle(bench.engine)
        assert bench.engine.logprobs == LogprobsFinding("unknown", "all alike")
        assert len(probes(app)) == 3


async def test_a_gateway_probes_at_its_start_and_keeps_watch(
    open_house: OpenHouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An engine that was slow at the start is found out later, and turns taken before say that it was unknown."""
    monkeypatch.setattr("gateway.edge.probe._WATCH_INTERVAL_S", 0.05)
    monkeypatch.setattr("gateway.edge.probe._START_S", 0.05)
    slow = asyncio.Event()

    async with serving(slow_sim(slow)) as server:
        house = await open_house(engine=(str(server.make_url("")),))
        await house.ask("early", temperature=0.5)
        slow.set()
        await until(lambda: _knows(house))
        await house.ask("late", temperature=0.5)
        told = [(turn["logprobs_mode"], turn["logprobs_exact"]) for turn in await house.turns("early")]
        assert told == [("unknown", False)]
        told = [(turn["logprobs_mode"], turn["logprobs_exact"]) for turn in await house.turns("late")]
        assert told == [("processed", True)]
        await house.http.close()


async def _knows(house: Any) -> bool:
    """Whether a turn taken now says that its logprobs are processed."""
    await house.ask("now", temperature=0.5)
    return bool((await house.turns("now"))[-1]["logprobs_mode"] == "processed")
