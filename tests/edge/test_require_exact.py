"""With `--logprobs require-exact` no turn is sampled whose logprobs are those of another distribution."""

import pytest

from gateway.sim import FAULTS, create_sim
from tests.edge.house import HELLO, Json, OpenHouse, serving


@pytest.mark.parametrize(
    ("sim", "asked", "taken"),
    [
        ({}, {}, True),
        ({}, {"temperature": 0.7}, False),
        ({}, {"top_p": 0.9}, False),
        ({}, {"presence_penalty": 1}, False),
        ({"version": "0.20.2"}, {}, True),
        ({"version": "0.20.2"}, {"temperature": 0.7}, False),
        ({"logprobs_mode": "processed_logprobs"}, {"temperature": 0.7, "top_p": 0.9}, True),
        ({"logprobs_mode": "processed_logprobs"}, {"temperature": 0}, False),
    ],
)
async def test_only_exact_logprobs_are_sampled(open_house: OpenHouse, sim: Json, asked: Json, taken: bool) -> None:
    """A refusal says why, and what helps; it makes no session, and the engine never hears of it."""
    house = await open_house(sim=sim, logprobs="require-exact")

    answer = await house.ask("s", HELLO, stream=False, **asked)

    turns = await house.turns("s")
    if taken:
        assert (answer.status, [turn["logprobs_exact"] for turn in turns]) == (200, [True])
        return
    assert (answer.status, answer.error["code"]) == (400, "logprobs_not_exact")
    remedy = "temperature above 0" if asked == {"temperature": 0} else "--logprobs-mode processed_logprobs"
    assert remedy in answer.error["message"]
    assert (turns, house.journal) == ([], [])
    streamed = await house.ask("s", HELLO, stream=True, **asked)
    assert (streamed.status, streamed.error["code"]) == (400, "logprobs_not_exact")


@pytest.mark.parametrize(
    ("mode", "asked", "taken"),
    [
        ("raw_logprobs", {"temperature": 0, "top_p": 0.5, "top_k": 3, "min_p": 0.1}, True),
        ("raw_logprobs", {"presence_penalty": 1}, False),
        ("raw_logprobs", {"logit_bias": {"5": 1.0}}, False),
        ("processed_logprobs", {"temperature": 0, "presence_penalty": 1, "logit_bias": {"5": 1.0}}, True),
    ],
)
async def test_a_locked_session_needs_processed_logprobs_for_penalties_alone(
    open_house: OpenHouse, mode: str, asked: Json, taken: bool
) -> None:
    """Temperature and truncation are settled; what else the agent asks for is honoured, and must be exact, too."""
    house = await open_house(logprobs="require-exact", sampling="locked", sim={"logprobs_mode": mode})

    answer = await house.ask("s", **asked)

    assert (answer.status, answer.status == 200 or answer.error["code"]) == (
        (200, True) if taken else (400, "logprobs_not_exact")
    )


async def test_an_engine_of_which_nothing_is_known_is_asked_first(open_house: OpenHouse) -> None:
    """Where that fails another time may help; what is exact anyway need not wait."""
    app = create_sim(logprobs_mode="processed_logprobs")
    async with serving(app) as server:
        app[FAULTS].inject(kind="cut", after=0)  # of the start's probe
        house = await open_house(engine=(str(server.make_url("")),), logprobs="require-exact")
        assert (await house.ask("s", temperature=0.5)).status == 200

        assert [turn["logprobs_mode"] for turn in await house.turns("s")] == ["processed"]
        await house.http.close()


async def test_an_error_of_an_engine_that_is_asked_is_no_verdict_on_the_turn(open_house: OpenHouse) -> None:
    """It may be tried again, and soon it is known; an error that may not be would stand for minutes."""
    app = create_sim(logprobs_mode="processed_logprobs")
    async with serving(app) as server:
        app[FAULTS].inject(kind="garbage", times=1)  # of the start's probe
        house = await open_house(engine=(str(server.make_url("")),), logprobs="require-exact")
        refused = await house.ask("s", temperature=0.5)

        assert (refused.status, refused.error["code"]) == (503, "engine_unavailable")
        assert "Retry-After" in refused.headers
        await house.http.close()
