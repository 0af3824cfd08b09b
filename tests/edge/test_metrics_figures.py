"""Times, tokens, sessions and ranks, as Prometheus sees them."""

import asyncio
import time
from contextlib import suppress

import pytest

from gateway.edge.loop_lag import watch_lag
from gateway.edge.metric_table import HEALTH, PHASES
from gateway.edge.metrics import Metrics
from gateway.edge.pace import Pace
from tests.edge.house import HELLO, House, OpenHouse, Words, until, user


async def test_prompts_are_of_tokens_that_were_there_and_of_others(house: House, words: Words) -> None:
    """A bridge takes over the turn before, prompt and completion; a render takes nothing; together they are all."""
    first = await house.ask("s", HELLO, words.said("Hi."))
    await house.ask("s", [*HELLO, first.message, user("And?")], words.said("Yes."))
    await house.ask("s", [user("Else?")], words.said("No."))

    reused = len(house.prompts[0]) + len(words.said("Hi."))
    assert await house.metric("gateway_prompt_prefix_tokens_total", source="reused") == reused
    rendered = await house.metric("gateway_prompt_prefix_tokens_total", source="rendered")
    assert rendered + reused == sum(map(len, house.prompts))
    assert rendered + reused == await house.metric("gateway_tokens_total", type="prompt")


@pytest.mark.parametrize("stream", [False, True])
async def test_each_step_of_a_call_is_timed_once(house: House, words: Words, *, stream: bool) -> None:
    """The engine's may be several; here it is one, too. None takes longer than the call itself."""
    began_s = time.perf_counter()
    assert (await house.ask("s", HELLO, words.said("Hi."), stream=stream)).status == 200
    lasted_s = time.perf_counter() - began_s

    for phase in PHASES:
        assert await house.metric("gateway_phase_seconds_count", phase=phase) == 1, phase
        assert await house.metric("gateway_phase_seconds_sum", phase=phase) < lasted_s
    assert await house.metric("gateway_phase_seconds_sum", phase="render") > 0
    assert await house.metric("gateway_phase_seconds_sum", phase="engine") > 0


async def test_what_a_failed_call_had_done_is_timed(house: House, words: Words) -> None:
    """It found its place, was rendered, waited and had an engine; nothing was put or written."""
    house.faults.inject("no_logprobs")
    assert (await house.ask("s", HELLO, words.said("Hi."))).status == 502

    counted = {phase for phase in PHASES if await house.metric("gateway_phase_seconds_count", phase=phase)}
    assert counted == {"decode", "match", "render", "queue", "engine"}


@pytest.mark.parametrize(("n", "interval"), [(1, 1), (2, 1), (1, 8)])
async def test_the_first_token_counts_once_an_answer_and_each_later_one_once(
    open_house: OpenHouse, words: Words, n: int, interval: int
) -> None:
    """Of the ids of the first event none has a gap; eight ids of another have eight gaps."""
    house = await open_house(stream_interval_tokens=interval)
    script = words.said("Hello, you there.")
    await house.ask("s", HELLO, script, n=n)
    await house.ask("s", HELLO, script, n=n, stream=True)

    assert await house.metric("gateway_time_to_first_token_seconds_count") == 2 * n
    gaps = await house.metric("gateway_inter_token_seconds_count")
    first = len(script) - gaps / (2 * n)
    assert 1 <= first <= interval
    assert await house.metric("gateway_inter_token_seconds_bucket", le="+Inf") == gaps


async def test_the_first_token_waits_for_everything_before_it(open_house: OpenHouse, words: Words) -> None:
    """The prefill is in it, and not in what comes between tokens."""
    house = await open_house(sim={"first_token_delay_s": 0.3})
    await house.ask("s", HELLO, words.said("Hi."))

    assert await house.metric("gateway_time_to_first_token_seconds_sum") >= 0.3
    assert await house.metric("gateway_phase_seconds_sum", phase="engine") >= 0.3
    assert await house.metric("gateway_inter_token_seconds_sum") < 0.3


def test_the_gap_of_a_cut_is_no_pace() -> None:
    """An answer has one first token, over however many calls; each call's pace is its own."""
    metrics = Metrics()
    pace = Pace(metrics, time.perf_counter())
    for _ in range(2):
        with pace:
            pace.heard(4)
            pace.heard(3)

    counted = metrics.registry.get_sample_value
    assert counted("gateway_time_to_first_token_seconds_count") == 1
    assert counted("gateway_inter_token_seconds_count") == 6
    assert counted("gateway_phase_seconds_count", {"phase": "engine"}) == 2


async def test_what_sessions_hold_comes_and_goes_with_them(house: House, words: Words) -> None:
    """Turns, and the tokens that each added; nothing is left of those that were deleted or never came to be."""

    async def held() -> list[float]:
        names = ("gateway_sessions", "gateway_session_turns", "gateway_session_tokens")
        return [await house.metric(name) for name in names]

    first = await house.ask("s", HELLO, words.said("Hi."))
    one = len(house.prompts[0]) + len(words.said("Hi."))
    assert await held() == [1, 1, one]

    await house.ask("s", [*HELLO, first.message, user("And?")], words.said("Yes."))
    assert await held() == [1, 2, len(house.prompts[1]) + len(words.said("Yes."))]

    house.faults.inject("cut", after=2)
    assert (await house.ask("t", HELLO, words.said("No."))).status == 503
    assert (await house.ask("u", HELLO, words.said("No."), temperature="warm")).status == 400
    assert (await held())[:2] == [2, 3]

    for session in "st":
        assert (await house.call("DELETE", f"/sessions/{session}")).status in (200, 204)
    assert await held() == [0, 0, 0]


async def test_a_rank_is_up_where_it_takes_turns(open_house: OpenHouse) -> None:
    """One that drains is well and takes none; an engine that was removed is not told of at all."""
    house = await open_house(sim={"ranks": 2}, ranks=2)
    (engine,) = (await house.call("GET", "/admin/engines")).body["data"]
    label = engine["url"].removeprefix("http://")

    async def up(rank: int) -> float:
        return await house.metric("gateway_rank_up", engine=label, rank=str(rank))

    assert [await up(0), await up(1)] == [1, 1]
    await house.send("POST", "/admin/engines", url=engine["url"], rank=1, draining=True)
    assert [await up(0), await up(1)] == [1, 0]
    for state in HEALTH:
        assert await house.metric("gateway_rank_state", rank="1", state=state) == (state == "up")
    capacities = [rank["capacity_tokens"] for rank in engine["ranks"]]
    assert await house.metric("gateway_rank_capacity_tokens") == sum(capacities)

    assert (await house.send("DELETE", "/admin/engines", url=engine["url"])).status == 200
    assert label not in (await house.call("GET", "/metrics")).body


async def test_a_rank_that_goes_down_is_not_up(open_house: OpenHouse) -> None:
    """Its state says why: exactly one does."""
    house = await open_house(engine=("http://127.0.0.1:9",), health_interval_s=0.05)

    assert await house.metric("gateway_rank_up") == 0
    assert await house.metric("gateway_rank_state") == 1
    await until(lambda: _is_down(house))
    assert "gateway_rank_capacity_tokens{" not in (await house.call("GET", "/metrics")).body


async def _is_down(house: House) -> bool:
    return await house.metric("gateway_rank_state", state="down") == 1


async def test_what_holds_the_loop_up_shows_as_lag() -> None:
    """Whether anybody scrapes or not."""
    metrics = Metrics()
    watching = asyncio.ensure_future(watch_lag(metrics))
    await asyncio.sleep(0)
    time.sleep(0.6)  # noqa: ASYNC251  # as a call would that should not
    await until(lambda: metrics.registry.get_sample_value("gateway_event_loop_lag_seconds_count"))
    watching.cancel()
    with suppress(asyncio.CancelledError):
        await watching

    within = metrics.registry.get_sample_value("gateway_event_loop_lag_seconds_bucket", {"le": "0.25"})
    assert metrics.registry.get_sample_value("gateway_event_loop_lag_seconds_sum") >= 0.4
    assert within == metrics.registry.get_sample_value("gateway_event_loop_lag_seconds_count") - 1


async def test_a_gateway_watches_its_loop_by_itself(house: House) -> None:
    """From its start on."""

    async def watched() -> bool:
        return await house.metric("gateway_event_loop_lag_seconds_count") >= 2

    await until(watched)
