"""Active checks: who is there, how much there is to do, and who must prove itself before it takes turns again."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import unused_port
from structlog.testing import capture_logs

from gateway.core.health import Health
from gateway.core.pool import Affinity, Bounds, Demand
from gateway.edge import checks as watching
from gateway.edge.backends import Backends
from gateway.edge.checks import Checks
from gateway.edge.engine import Engine
from gateway.edge.metrics import Metrics
from gateway.edge.rank import Rank
from gateway.errors import EngineUnavailable
from gateway.sim import FAULTS, JOURNAL, create_sim
from tests.edge.house import HELLO, Application, OpenHouse, probes, serving, until
from tests.edge.raw import payloads


@asynccontextmanager
async def pool_of(*urls: str, **bounds: Any) -> AsyncIterator[Backends]:
    """The backends of these engines, each asked once."""
    engines = [Engine(url.rstrip("/")) for url in urls]
    backends = Backends(engines, Metrics(), bounds=Bounds(**bounds), prompt=[1, 2, 3])
    await backends.refresh()
    try:
        yield backends
    finally:
        await backends.close()


@asynccontextmanager
async def one(app: Application, told: str = "") -> AsyncIterator[tuple[Backends, Engine, Rank]]:
    """The backends of one engine, and its first rank."""
    async with serving(app) as server, pool_of(f"{str(server.make_url('')).rstrip('/')}{told}") as backends:
        yield backends, backends.engines[0], backends.ranks[0]


async def failed_turn(backends: Backends) -> None:
    """A turn that fails by its engine's fault."""
    async with backends.lease(Affinity("s"), Demand(1)) as lease:
        lease.failed()
    await backends.checks.ask(lease.rank.engine)


async def test_an_engine_in_service_says_how_much_it_has_to_do() -> None:
    """Each of its ranks for itself; and how much their caches hold."""
    app = create_sim(ranks=2, token_delay_s=3600, block_size=16, cache_blocks=100)
    async with one(app) as (backends, engine, _):
        call = asyncio.ensure_future(payloads(engine))
        await until(lambda: app[JOURNAL].running)
        await backends.checks.ask(engine)
        gauges = [rank.gauges for rank in backends.ranks]
        assert sorted(gauge.running for gauge in gauges if gauge) == [0, 1]
        assert [rank.capacity_tokens for rank in backends.ranks] == [1600, 1600]
        call.cancel()


async def test_one_failed_turn_takes_no_rank_out_of_service_and_has_it_asked() -> None:
    """Its answer takes the suspicion from it, and the third failure in a row takes it out all the same."""
    app = create_sim()
    async with one(app) as (backends, _, rank):
        for failures in (1, 2):
            await failed_turn(backends)
            assert rank.health == Health("up", failures)
        assert probes(app) == []
        app[FAULTS].inject("error_500")
        await failed_turn(backends)
        assert rank.health.state == "down"
        assert backends.known() == {}


async def test_a_rank_that_was_down_samples_a_token_before_it_takes_turns() -> None:
    """With its logprob; while it does not, calls are told why."""
    app = create_sim()
    async with one(app) as (backends, engine, rank):
        rank.health = Health("down", 3)
        for fault, says in (("error_500", "500"), ("positive_logprob", "logprob")):
            app[FAULTS].inject(fault)
            with pytest.raises(EngineUnavailable, match=f"no engine answers:.*{says}"):
                async with backends.lease(Affinity("s"), Demand(1)):
                    raise AssertionError
            assert rank.health.state == "down"
        async with backends.lease(Affinity("s"), Demand(1)) as lease:
            assert lease.rank is rank
        assert rank.health == Health()
        assert [entry.body["sampling_params"]["max_tokens"] for entry in probes(app)] == [1, 1, 1]  # type: ignore[index]  # JSON
        assert engine.logprobs.reason == "it was not asked yet"


async def test_a_rank_of_several_proves_itself_alone() -> None:
    """The others take turns meanwhile, and nothing of what is known of their engine is lost."""
    app = create_sim(ranks=3)
    async with one(app) as (backends, engine, _):
        second = backends.ranks[1]
        second.health = Health("down", 3)
        assert len(backends.known()) == 2
        await backends.checks.ask(engine)
        assert second.health == Health()
        assert [entry.headers["x-data-parallel-rank"] for entry in probes(app)] == ["1"]


async def test_a_paused_engine_need_not_prove_anything(monkeypatch: pytest.MonkeyPatch) -> None:
    """It cannot; one that answers and samples nothing, though nothing holds it, stays down."""
    monkeypatch.setattr(watching, "PATIENCE_S", 0.05)
    app = create_sim()
    async with one(app) as (backends, engine, rank):
        await engine.post("/pause")
        rank.health = Health("down")
        await backends.checks.ask(engine)
        assert rank.health.state == "up"
        await engine.post("/resume")
        app[FAULTS].inject("stall")
        rank.health = Health("down")
        await backends.checks.ask(engine)
        assert (rank.health.state, engine.trouble) == ("down", f"{rank.name} answers, and samples nothing")


async def test_an_engine_that_works_through_a_queue_is_not_dead(monkeypatch: pytest.MonkeyPatch) -> None:
    """It samples for others, so that it proves itself though our token does not come in time."""
    monkeypatch.setattr(watching, "PATIENCE_S", 0.3)
    app = create_sim(max_running=1, token_delay_s=0.05)
    async with one(app) as (backends, engine, rank):
        busy = asyncio.ensure_future(_busy(engine))
        await until(lambda: app[JOURNAL].running)
        rank.health = Health("down")
        await backends.checks.ask(engine)
        assert rank.health.state == "up"
        busy.cancel()
        await asyncio.gather(busy, return_exceptions=True)


async def _busy(engine: Engine) -> None:
    script = list(range(100, 200))
    body = b'{"token_ids": [1], "stream": true, "sampling_params": {"logprobs": 1, "max_tokens": 99, "extra_args": {"script": %s}}}'
    async for _ in engine.generate(body % str(script).encode(), request_id="r"):
        pass


async def test_metrics_that_are_not_shown_say_nothing_against_an_engine() -> None:
    """They may be off; its models are asked for as well."""
    asked: list[str] = []

    @web.middleware
    async def hide(request: web.Request, handler: Any) -> web.StreamResponse:
        asked.append(request.path)
        if request.path == "/metrics":
            raise web.HTTPNotFound
        response: web.StreamResponse = await handler(request)
        return response

    app = create_sim()
    app.middlewares.insert(0, hide)
    async with one(app) as (backends, engine, rank):
        asked.clear()
        await backends.checks.ask(engine)
        assert sorted(asked) == ["/metrics", "/v1/models"]
        assert (rank.health, rank.gauges, engine.doubted) == (Health(), None, False)


async def test_an_engine_that_is_gone_is_found_to_be_without_a_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """And so is one that comes back, perhaps with other ranks and another context."""
    monkeypatch.setattr(watching, "_DOWN_INTERVAL_S", 0.02)
    port = unused_port()
    url = f"http://127.0.0.1:{port}"
    async with serving(create_sim(), port=port) as first:
        backends = Backends([Engine(url)], Metrics(), bounds=Bounds(health_interval_s=0.02), prompt=[1, 2, 3])
        await backends.refresh()
        checks = asyncio.ensure_future(backends.checks.run())
        assert backends.known() == {f"{url}#0": 40960}
        await first.close()
        await until(lambda: not backends.known())
        assert backends.ranks[0].health.state == "down"
        async with serving(create_sim(ranks=2, max_model_len=99), port=port):
            await until(lambda: backends.known() == {f"{url}#0": 99, f"{url}#1": 99})
        checks.cancel()
        await asyncio.gather(checks, return_exceptions=True)
        await backends.close()


async def test_a_call_that_broke_off_has_the_engine_asked_before_the_next_turn() -> None:
    """It is not taken out of service for that, and no turn of its sessions goes elsewhere."""
    app = create_sim()
    async with one(app) as (backends, engine, rank):
        home = Affinity("s")
        async with backends.lease(home, Demand(1)):
            engine.doubted = True
        async with backends.lease(home, Demand(1)) as lease:
            assert (lease.rank, rank.health, engine.doubted) == (rank, Health(), False)


async def test_there_is_one_check_of_an_engine_at_a_time() -> None:
    """Whoever asks waits for it, and whoever leaves ends nothing."""
    asked, answered = 0, asyncio.Event()

    @web.middleware
    async def slowly(request: web.Request, handler: Any) -> web.StreamResponse:
        nonlocal asked
        if request.path == "/metrics" and started:
            asked += 1
            await answered.wait()
        response: web.StreamResponse = await handler(request)
        return response

    started = False
    app = create_sim()
    app.middlewares.insert(0, slowly)
    async with one(app) as (backends, engine, _):
        started = True
        askers = [asyncio.ensure_future(backends.checks.ask(engine)) for _ in range(5)]
        await until(lambda: asked)
        askers[0].cancel()
        answered.set()
        await asyncio.gather(*askers, return_exceptions=True)
        assert asked == 1


async def test_checks_are_jittered_and_due_where_engines_are() -> None:
    """An engine that is added is asked, one that was removed is not any more; those that are down more often."""
    async with one(create_sim()) as (backends, engine, rank):
        checks = Checks(backends, interval_s=8, share=iter((0.0, 1.0, 0.5)).__next__)
        assert [checks._pause_s(engine) for _ in range(2)] == [6, 10]
        rank.health = Health("down")
        assert checks._pause_s(engine) == 2


async def test_a_removed_engine_is_not_checked_and_nothing_is_kept_of_it() -> None:
    """Be its check under way, or asked for by a turn that was there before."""
    async with one(create_sim()) as (backends, engine, _):
        backends.checks.begin(engine)
        backends.remove(engine)
        await backends.checks.forget(engine)
        await backends.checks.ask(engine)
        assert (backends.ranks, backends.checks._under_way) == ([], {})
        await engine.close()


async def test_a_check_that_fails_in_whatever_way_is_logged(monkeypatch: pytest.MonkeyPatch) -> None:
    """The watch goes on."""
    async with one(create_sim()) as (backends, engine, _):
        monkeypatch.setattr(watching, "facts_of", lambda *_: 1 / 0)
        with capture_logs() as lines:
            await backends.checks.ask(engine)
        assert [line["log_level"] for line in lines] == ["error"]


async def test_a_session_comes_through_the_failures_of_its_engine(open_house: OpenHouse) -> None:
    """A call fails, the next is served: the engine answers."""
    house = await open_house(health_interval_s=0.05)
    for fault in ("cut", "error_500", "cut"):
        house.faults.inject(fault)
        assert (await house.ask("s", HELLO)).status in (502, 503)
        assert (await house.ask("s", HELLO)).status == 200
