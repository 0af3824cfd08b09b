"""An engine that will not, or cannot, go on with what another has begun: it is asked of others, at the cost of an attempt."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from aiohttp import web

from gateway.sim import FAULTS, create_sim
from tests.edge.house import HELLO, Json, OpenHouse, generated, probes, serving, until
from tests.edge.obstacle import events, refusal
from tests.edge.pair import EOS, SAID, open_pair

LONG: Json = {"ignore_eos": True, "max_tokens": 12}
AGAIN = [*SAID, EOS] * 3
FORMAT: Json = {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "object"}}}

REFUSALS: dict[str, Callable[[], web.Response]] = {
    "400": lambda: refusal(400),
    "401": lambda: refusal(401),
    "403": lambda: refusal(403),
    "404": lambda: refusal(404),
    "no ids": lambda: events({"index": 0, "token_ids": [], "finish_reason": "stop"}),
    "no event": lambda: web.Response(body=b"data: {\n\n", content_type="text/event-stream"),
    "no stream": lambda: web.json_response({}),
    "no evidence": lambda: events({"index": 0, "token_ids": [5], "finish_reason": None}),
    "too long": lambda: web.json_response(
        {"error": {"message": "This model's maximum context length is 7 tokens.", "code": 400}}, status=400
    ),
}


@pytest.fixture(autouse=True)
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """How long they become is a matter of `tests/core/test_resume.py`."""
    monkeypatch.setattr("gateway.core.resume._BACK_OFF_S", 0.01)
    monkeypatch.setattr("gateway.edge.probe._FIRST_PAUSE_S", 0.1)


@pytest.mark.parametrize("streams", [False, True])
@pytest.mark.parametrize("what", REFUSALS)
async def test_a_refusal_to_go_on_is_the_engines_own(open_house: OpenHouse, what: str, *, streams: bool) -> None:
    """Another has taken the same request, so it is not the caller's fault."""
    async with open_pair(open_house, resume_attempts=2) as pair:
        pair.faults.inject("cut", after=5)
        away = pair.obstacles[pair.away]
        away.answers.append(REFUSALS[what]())
        told = await pair.ask(streams=streams, **LONG)
        (turn,) = await pair.turns()

    assert (told.status, told.error, away.refused) == (200, None, 1)
    assert turn["completion_ids"] == pair.emitted == AGAIN[:5] + AGAIN[:7]
    assert [(cut["position"], cut["reason"], cut["to_engine"]) for cut in turn["cuts"]] == [(5, "lost", pair.home)]


@pytest.mark.parametrize("what", ["400", "404", "no ids", "too long"])
async def test_a_refusal_of_the_first_call_is_final(open_house: OpenHouse, what: str) -> None:
    """It may well be the caller's fault."""
    async with open_pair(open_house) as pair:
        pair.obstacles[pair.home].answers.append(REFUSALS[what]())
        told = await pair.ask(streams=False)
        assert await pair.turns() == []

    assert told.status == {"400": 400, "404": 404, "no ids": 502, "too long": 400}[what]
    assert pair.calls == []


async def test_when_all_refuse_the_last_refusal_is_told(open_house: OpenHouse) -> None:
    """What had been sampled is a turn that failed."""
    async with open_pair(open_house, resume_attempts=3) as pair:
        pair.faults.inject("cut", after=5)
        pair.obstacles[pair.away].answers.extend([refusal(400), refusal(401)])
        asking = asyncio.ensure_future(pair.ask(streams=False, **LONG))
        await until(lambda: pair.calls)
        pair.obstacles[pair.home].answers.extend([refusal(400)])
        told = await asking
        (turn,) = await pair.turns()
        assert await pair.house.metric("gateway_resumes_total", outcome="gave_up") == 1

    assert told.error is not None
    assert (told.status, told.error["code"]) == (502, "engine_protocol_error")
    assert (turn["status"], turn["completion_ids"]) == ("aborted", AGAIN[:5])


@pytest.mark.parametrize("kind", ["sentinel_logprob", "garbage", "wrong_logprob_id"])
async def test_what_a_call_had_said_before_it_was_found_untrue_is_taken_back(open_house: OpenHouse, kind: str) -> None:
    """Its client was told nothing of it."""
    async with open_pair(open_house) as pair:
        pair.faults.inject("cut", after=5)
        pair.sims[pair.away][FAULTS].inject(kind, after=1)
        told = await pair.ask(streams=False, stop="never", **LONG)
        (turn,) = await pair.turns()

    assert told.status == 200
    assert turn["completion_ids"] == AGAIN[:5] + AGAIN[:7]
    assert [(cut["position"], cut["from_engine"], cut["to_engine"]) for cut in turn["cuts"]] == [
        (5, pair.home, pair.home)
    ]


async def test_an_engine_whose_logprobs_are_not_exact_does_not_go_on(open_house: OpenHouse) -> None:
    """Where they must be; another does, and where none can the answer ends for that reason."""
    home, away = {"logprobs_mode": "processed_logprobs"}, {"logprobs_mode": "raw_logprobs"}
    async with open_pair(open_house, home, away, logprobs="require-exact", resume_attempts=2) as pair:
        pair.faults.inject("cut", after=5)
        told = await pair.ask(streams=True, temperature=0.7, **LONG)
        (turn,) = await pair.turns()
        assert generated(pair.sims[pair.away]) == []

    assert (told.status, told.error) == (200, None)
    assert [cut["to_engine"] for cut in turn["cuts"]] == [pair.home]
    assert turn["logprobs_exact"]


async def test_an_engine_that_is_just_being_admitted_again_is_asked_for_its_logprobs_and_goes_on(
    open_house: OpenHouse,
) -> None:
    """What it was asked before was of the one that there was before, however short a time ago."""
    home, away = {"logprobs_mode": "processed_logprobs"}, {"logprobs_mode": "raw_logprobs"}
    async with open_pair(open_house, home, away, logprobs="require-exact", resume_attempts=2) as pair:
        assert (await pair.ask(streams=False, temperature=0.7)).status == 200  # so it was asked just now
        pair.obstacles[pair.home].delays_s["/server_info"] = 0.25  # it is known to be there, and its ranks are counted
        pair.faults.inject("cut", after=5)
        told = await pair.ask(streams=True, temperature=0.7, **LONG)
        _, turn = await pair.turns()

    assert (told.status, told.error) == (200, None)
    assert [cut["to_engine"] for cut in turn["cuts"]] == [pair.home]
    assert turn["logprobs_exact"]


async def test_an_engine_that_does_not_tell_at_once_what_its_logprobs_are_is_waited_for_and_costs_no_attempt(
    open_house: OpenHouse,
) -> None:
    """The first call after the cut takes the one attempt; that its engine is not known yet is nobody's failure."""
    sim: Json = {"logprobs_mode": "processed_logprobs"}
    async with open_pair(open_house, sim, logprobs="require-exact", resume_attempts=1) as pair:
        assert (await pair.house.send("DELETE", "/admin/engines", url=pair.away)).status == 200
        assert (await pair.ask(streams=False, temperature=0.7)).status == 200
        pair.faults.inject("cut", after=5)
        pair.obstacles[pair.home].probe_answers.extend([refusal(503), refusal(503)])
        told = await pair.ask(streams=True, temperature=0.7, **LONG)
        _, turn = await pair.turns()
        calls = len(probes(pair.sims[pair.home]))

    assert (told.status, told.error) == (200, None)
    assert (turn["logprobs_exact"], turn["completion_ids"]) == (True, AGAIN[:5] + AGAIN[:7])
    assert not pair.obstacles[pair.home].probe_answers
    assert calls < 10  # and it is not asked again and again meanwhile


async def test_what_is_bound_is_made_anew_where_it_can_be_bound(open_house: OpenHouse, tokenizer_folder: str) -> None:
    """An engine of before 0.32 would ignore it."""
    home, away = {"tokenizer": tokenizer_folder}, {"version": "0.27.0"}
    async with open_pair(open_house, home, away) as pair:
        pair.faults.inject("cut", after=2)
        told = await pair.ask(streams=False, response_format=FORMAT)
        failed, turn = await pair.turns()
        assert generated(pair.sims[pair.away]) == []

    assert told.status == 200
    assert (failed["status"], turn["status"], turn["engine"]) == ("aborted", "complete", pair.home)


@pytest.mark.parametrize("streams", [False, True])
async def test_an_answer_that_the_next_window_does_not_hold_ends_there(open_house: OpenHouse, *, streams: bool) -> None:
    """By the context, not by the length that was asked for."""
    one = create_sim()
    async with serving(one) as first:
        url = str(first.make_url("")).rstrip("/")
        house = await open_house(engine=(url,), resume_attempts=5)
        one[FAULTS].inject("stall", after=12)
        asking = asyncio.ensure_future(house.ask("s", HELLO, ignore_eos=True, max_tokens=50, stream=streams))
        await until(lambda: generated(one) and len(generated(one)[0].emitted) == 12)
        prompt: Any = generated(one)[0].body["token_ids"]
        other = create_sim(max_model_len=len(prompt) + 10)
        async with serving(other) as second:
            assert (await house.send("POST", "/admin/engines", url=str(second.make_url("")))).status == 200
            assert (await house.send("DELETE", "/admin/engines", url=url)).status == 200
            answer = await asking
            (turn,) = await house.turns("s")
            (row,) = await house.rows("s")

    assert answer.status == 200
    assert (turn["ended_by"], turn["finish_reason"], turn["completion_tokens"]) == ("context", "length", 12)
    assert (turn["engine"], turn["cuts"], row["truncated"]) == (url, [], True)
