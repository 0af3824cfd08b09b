"""An engine that comes back with more ranks, or fewer, and one of which the operator says what it is not."""

import asyncio

import pytest
from aiohttp.test_utils import unused_port
from structlog.testing import capture_logs

from gateway.edge.admission import count_ranks
from gateway.edge.engine import Engine
from gateway.sim import create_sim
from tests.edge.house import House, OpenHouse, generated, serving, until
from tests.edge.wild import CONFIGURATION, GENERATE, METRICS, answers, url_of, wild


async def ranks_shown(house: House) -> int:
    """How many ranks the only engine has."""
    (one,) = (await house.send("GET", "/admin/engines")).body["data"]
    return len(one["ranks"])


@pytest.mark.parametrize("attempts", [0, 5])
async def test_an_engine_with_fewer_ranks_fails_no_turn(open_house: OpenHouse, attempts: int) -> None:
    """Though nobody has looked since: a call that it refuses for its rank is placed anew."""
    port = unused_port()
    async with serving(create_sim(ranks=4), port=port):
        house = await open_house(engine=(f"http://127.0.0.1:{port}",), health_interval_s=3600, resume_attempts=attempts)
        assert await ranks_shown(house) == 4
    async with serving(create_sim(ranks=2), port=port):
        statuses = [(await house.ask(f"s{at}")).status for at in range(12)]
        assert statuses == [200] * 12
        assert await ranks_shown(house) == 2
        await house.http.close()


async def test_a_number_that_a_caller_insists_on_is_not_replaced(open_house: OpenHouse) -> None:
    """It is refused, at first by the engine; then it is known that there is none."""
    port = unused_port()
    async with serving(create_sim(ranks=4), port=port):
        house = await open_house(engine=(f"http://127.0.0.1:{port}",), health_interval_s=3600)
    async with serving(create_sim(ranks=2), port=port):
        insists = {"X-data-parallel-rank": "3"}
        assert [(await house.ask("s", headers=insists)).status for _ in range(2)] == [400, 400]
        assert (await house.ask("s")).status == 200
        assert await ranks_shown(house) == 2
        await house.http.close()


async def test_an_engine_with_more_ranks_is_found_by_its_metrics(open_house: OpenHouse) -> None:
    """By the next check, and all of them get turns."""
    port = unused_port()
    async with serving(create_sim(ranks=1), port=port):
        house = await open_house(engine=(f"http://127.0.0.1:{port}",), health_interval_s=0.1)
    sim = create_sim(ranks=4)
    async with serving(sim, port=port):

        async def is_found() -> bool:
            return await ranks_shown(house) == 4

        await until(is_found, within_s=4)
        await asyncio.gather(*(house.ask(f"s{at}") for at in range(16)))
        assert {entry.headers["x-data-parallel-rank"] for entry in generated(sim)} == {"0", "1", "2", "3"}
        await house.http.close()


@pytest.mark.parametrize(("hidden", "told", "used"), [((), 4, 2), ((METRICS, CONFIGURATION), 4, 2), ((), 1, 1)])
async def test_what_the_operator_says_is_compared(hidden: tuple[str, ...], told: int, used: int) -> None:
    """With what the engine says: the smaller number counts, and that they differ is said once."""
    app, hooks = wild(ranks=2)
    hooks.update({path: answers(404) for path in hidden})
    async with serving(app) as server:
        engine = Engine(f"{url_of(server)}#dp={told}")
        assert await engine.refresh()
        with capture_logs() as lines:
            for _ in range(2):
                await count_ranks(engine, [1, 2, 3])
        await engine.close()
    assert engine.ranks == used
    (said,) = lines
    assert (said["log_level"], said["told"], said["engine_says"]) == ("warning", told, 2)


@pytest.mark.parametrize("status", [429, 500, 503])
@pytest.mark.parametrize("failing", [(GENERATE,), (METRICS, GENERATE), (METRICS, CONFIGURATION, GENERATE, "/version")])
async def test_an_engine_that_fails_at_its_admission_has_said_nothing(status: int, failing: tuple[str, ...]) -> None:
    """It stays untold, and is asked again."""
    app, hooks = wild(ranks=4)
    hooks.update({path: answers(404) for path in (METRICS, CONFIGURATION)})
    hooks.update({path: answers(status) for path in failing})
    async with serving(app) as server:
        engine = Engine(url_of(server))
        assert await engine.refresh()
        await count_ranks(engine, [1, 2, 3])
        assert (engine.ranks, engine.untold, engine.doubted) == (1, True, False)
        del hooks[GENERATE]
        hooks.update({path: answers(404) for path in (METRICS, CONFIGURATION)})
        hooks.pop("/version", None)
        assert await engine.settle(1.0)
        await count_ranks(engine, [1, 2, 3])
        assert (engine.ranks, engine.untold) == (4, False)
        await engine.close()


async def test_a_rank_that_is_refused_otherwise_is_none() -> None:
    """A refusal that names no number says that a turn cannot choose."""
    app, hooks = wild(ranks=4)
    hooks.update({path: answers(404) for path in (METRICS, CONFIGURATION)})
    hooks[GENERATE] = answers(400, '{"error": {"message": "no such parameter", "code": 400}}')
    async with serving(app) as server:
        engine = Engine(url_of(server))
        assert await engine.refresh()
        await count_ranks(engine, [1, 2, 3])
        assert (engine.ranks, engine.untold) == (1, False)
        await engine.close()
