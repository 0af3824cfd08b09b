"""With `--logprobs require-exact` no turn is sampled whose logprobs are those of another distribution."""

import pytest

from gateway.core.sampling import LogprobsMode
from gateway.wire.probe import LogprobsFinding
from tests.edge.house import HELLO, Json, OpenHouse, probes
from tests.edge.raw import RawServer, listening


@pytest.mark.parametrize(
    ("sim", "asked", "taken"),
    [
        ({}, {}, True),
        ({}, {"temperature": 0.7}, False),
        ({}, {"top_p": 0.9}, False),
        ({}, {"presence_penalty": 1}, False),
        ({"version": "0.20.2"}, {}, False),
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


@pytest.mark.parametrize("asked", [{}, {"temperature": 0.5}])
async def test_an_engine_of_which_nothing_is_known_is_asked_first(open_house: OpenHouse, asked: Json) -> None:
    """By the first turn, and not before; it waits also where it would be exact in either mode, since exact takes proof."""
    house = await open_house(sim={"logprobs_mode": "processed_logprobs"}, logprobs="require-exact")
    assert probes(house.sim) == []
    assert (await house.ask("s", **asked)).status == 200

    assert [turn["logprobs_mode"] for turn in await house.turns("s")] == ["processed"]
    assert len(probes(house.sim)) == 2


async def test_an_error_of_an_engine_that_is_asked_is_no_verdict_on_the_turn(open_house: OpenHouse) -> None:
    """It may be tried again, and soon it is known; an error that may not be would stand for minutes."""
    house = await open_house(sim={"logprobs_mode": "processed_logprobs"}, logprobs="require-exact")
    for fault in ("cut", "garbage"):
        house.faults.inject(kind=fault, times=1)
        refused = await house.ask("s", temperature=0.5)

        assert (refused.status, refused.error["code"]) == (503, "engine_unavailable")
        assert "Retry-After" in refused.headers


async def test_what_is_no_logprob_is_not_exact_though_nothing_shapes_the_logits(
    open_house: OpenHouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The engine was asked and contradicted itself; another one is needed, and no parameter helps."""
    contradicted = LogprobsFinding("unknown", "they are none")
    monkeypatch.setattr("gateway.edge.probe.mode_of", lambda *_: contradicted)
    house = await open_house(logprobs="require-exact")

    refused = await house.ask("s")

    assert (refused.status, refused.error["code"], house.journal) == (400, "logprobs_not_exact", [])
    assert "they are none" in refused.error["message"]
    assert "or ask for" not in refused.error["message"]


@pytest.mark.parametrize(("logprobs", "taken"), [("warn", True), ("require-exact", False)])
async def test_an_engine_that_was_started_anew_between_two_turns_is_not_the_one_that_was_asked(
    open_house: OpenHouse, monkeypatch: pytest.MonkeyPatch, logprobs: str, taken: bool
) -> None:
    """Its connections are dead, so the next turn is marked, or waits until it is known what the new one returns."""
    monkeypatch.setattr("gateway.edge.probe.mode_of", lambda *_: LogprobsFinding(modes.pop(0)))
    monkeypatch.setattr("gateway.edge.probe.ALTERNATIVES", None)  # which the raw server has not
    modes: list[LogprobsMode] = ["processed", "raw", "raw"]
    async with listening(RawServer()) as raw:
        house = await open_house(engine=(raw.url,), logprobs=logprobs)
        await house.have_logprobs_told()
        assert (await house.ask("s", temperature=0.5)).status == 200
        raw.stale = raw.connections
        answer = await house.ask("s", temperature=0.5)

        turns = [turn["logprobs_exact"] for turn in await house.turns("s")]
        assert (answer.status, turns) == ((200, [True, False]) if taken else (400, [True]))
        await house.http.close()
