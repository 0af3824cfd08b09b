"""Carrying an answer on comes to an end, whatever engines do: by attempts, by time, and by the session's budget."""

import asyncio
import time
from typing import Any

import pytest

from gateway.core.pool import Demand
from gateway.errors import EngineUnavailable
from gateway.sim import FAULTS
from tests.edge.house import HELLO, Json, OpenHouse, until, user
from tests.edge.pair import EOS, SAID, Pair, open_pair
from tests.edge.pooling import Known, pooled

LONG: Json = {"ignore_eos": True, "max_tokens": 12}
AGAIN = [*SAID, EOS] * 40
RESTARTS: Json = {"presence_penalty": 1.0}


@pytest.fixture
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """How long they become is a matter of `tests/core/test_resume.py`."""
    monkeypatch.setattr("gateway.core.resume._BACK_OFF_S", 0.01)


def always(pair: Pair, kind: str, after: int) -> None:
    """From now on every call ends so."""
    for sim in pair.sims.values():
        sim[FAULTS].inject(kind, after=after, times=1000)


@pytest.mark.usefixtures("short_waits")
@pytest.mark.parametrize("streams", [False, True])
async def test_attempts_come_to_an_end(open_house: OpenHouse, *, streams: bool) -> None:
    """What was sampled until then is one turn, and the client hears what went wrong last."""
    async with open_pair(open_house, resume_attempts=2) as pair:
        for sim in pair.sims.values():
            sim[FAULTS].inject("abort", after=0, times=9)
        pair.faults.appendleft(pair.faults[0].__class__("no_finish", 3))
        told = await pair.ask(streams=streams, **LONG)
        (turn,) = await pair.turns()
        assert await pair.house.metric("gateway_resumes_total", outcome="gave_up") == 1
        assert await pair.house.metric("gateway_cuts_total", reason="abort") == 2

    assert told.error is not None
    assert told.error["code"] == "engine_unavailable"
    assert len(pair.calls) == 3
    assert (turn["status"], turn["completion_ids"], turn["cuts"]) == ("aborted", AGAIN[:3], [])


@pytest.mark.parametrize("streams", [False, True])
async def test_aborts_that_bring_something_cost_no_attempt(open_house: OpenHouse, *, streams: bool) -> None:
    """Each weight sync brings one."""
    async with open_pair(open_house, resume_attempts=1) as pair:
        pair.faults.inject("abort", after=16, times=5)
        told = await pair.ask(streams=streams, ignore_eos=True, max_tokens=90)
        (turn,) = await pair.turns()

    assert told.status == 200
    assert [cut["position"] for cut in turn["cuts"]] == [16, 32, 48, 64, 80]
    assert turn["completion_ids"] == pair.emitted == [*AGAIN[:16] * 5, *AGAIN[:10]]


@pytest.mark.usefixtures("short_waits")
@pytest.mark.parametrize("streams", [False, True])
async def test_an_engine_that_aborts_again_and_again_is_given_up(open_house: OpenHouse, *, streams: bool) -> None:
    """However many ids the answer is to have: those that one of its aborts brings are too few."""
    async with open_pair(open_house, resume_attempts=3) as pair:
        always(pair, "abort", 1)
        told = await pair.ask(streams=streams, ignore_eos=True, max_tokens=5000)
        (turn,) = await pair.turns()

    assert told.error is not None
    assert told.error["code"] == "engine_unavailable"
    assert (len(pair.calls), turn["completion_ids"]) == (4, [SAID[0]] * 4)


@pytest.mark.usefixtures("short_waits")
@pytest.mark.parametrize("after", [1, 20])
async def test_an_answer_that_is_made_anew_again_and_again_is_given_up(open_house: OpenHouse, after: int) -> None:
    """However much an abort brings, what is discarded is no progress."""
    async with open_pair(open_house, resume_attempts=3) as pair:
        always(pair, "abort", after)
        told = await pair.ask(streams=False, ignore_eos=True, max_tokens=5000, **RESTARTS)
        turns = await pair.turns()

    assert told.status == 503
    assert (len(pair.calls), len(turns)) == (4, 4)
    assert {turn["status"] for turn in turns} == {"aborted"}


@pytest.mark.parametrize(("kind", "fields"), [("abort", {}), ("abort", RESTARTS), ("no_finish", {})])
async def test_an_answer_waits_no_longer_than_it_may(open_house: OpenHouse, kind: str, fields: Json) -> None:
    """All its back-offs together, of which the first would be a quarter of a second."""
    async with open_pair(open_house, resume_attempts=1000, resume_timeout_s=0.4) as pair:
        always(pair, kind, 1)
        began_s = time.monotonic()
        told = await pair.ask(streams=False, ignore_eos=True, max_tokens=5000, **fields)

    assert told.status == 503
    assert len(pair.calls) in (3, 4)  # what it waits in line is waited, too
    assert 0.4 <= time.monotonic() - began_s < 10


async def test_what_an_answer_has_waited_in_one_line_is_not_to_be_waited_in_the_next() -> None:
    """The time is the answer's; what it waits at a gate does not count."""
    async with pooled(Known("http://a"), rank_turns=1, resume_timeout_s=0.2) as pool:
        first = pool.call("one")
        await until(lambda: first.lease)
        late = pool.call("two", resumes=True, waited_s=0.15)
        pool.backends.gate.set("all")
        await asyncio.sleep(0.2)
        assert not late.task.done()
        pool.backends.gate.set(None)
        began_s = time.monotonic()
        with pytest.raises(EngineUnavailable, match=r"within 0\.2 s"):
            await late.task
        assert time.monotonic() - began_s < 0.15


async def test_who_gets_a_rank_is_told_how_long_that_took() -> None:
    """With what it had waited before; the histogram has its own waits only."""
    async with pooled(Known("http://a"), rank_turns=1) as pool:
        first = pool.call("one")
        await until(lambda: first.lease)
        second = pool.call("two", resumes=True, waited_s=5.0)
        await asyncio.sleep(0)
        pool.now_s += 2
        await first.end()
        await until(lambda: second.lease)
        assert second.lease is not None
        assert second.lease.waited_s == 7
        assert pool.counted("gateway_phase_seconds_sum", phase="queue") == 2
        assert pool.backends.places.bounds.resume_timeout_s == 600 > Demand(1).waited_s


async def budgeted(pair: Pair, tokens: int) -> None:
    """Session ``b`` with a budget, and engines that cut its first call after eight ids."""
    made = await pair.house.send("POST", "/sessions", session_id="b", budget={"max_completion_tokens": tokens})
    assert made.status == 201
    for sim in pair.sims.values():
        sim[FAULTS].inject("abort", after=8)


def asked_for(pair: Pair) -> list[Any]:
    """How many ids each call asked for."""
    return [pair.params(number)["max_tokens"] for number in range(len(pair.calls))]


async def test_what_is_discarded_is_off_the_budget_of_its_session(open_house: OpenHouse) -> None:
    """It was sampled."""
    async with open_pair(open_house) as pair:
        await budgeted(pair, 10)
        answer = await pair.house.ask("b", ignore_eos=True, **RESTARTS)
        shown = await pair.house.shown("b")

    assert (answer.status, asked_for(pair)) == (200, [10, 2])
    assert shown["completion_tokens"] == 10
    assert [turn["ended_by"] for turn in await pair.house.turns("b")] == ["infra", "budget"]


async def test_what_one_of_several_answers_discards_is_off_its_own_share(open_house: OpenHouse) -> None:
    """The others keep theirs."""
    async with open_pair(open_house) as pair:
        await budgeted(pair, 20)
        for sim in pair.sims.values():
            sim[FAULTS].clear()
        pair.faults.inject("abort", after=8)
        pair.sims[pair.away][FAULTS].inject("abort", after=8)
        answer = await pair.house.ask("b", ignore_eos=True, n=2, **RESTARTS)
        shown = await pair.house.shown("b")

    assert answer.status == 200
    assert sorted(asked_for(pair)) in ([2, 10, 10], [2, 2, 10, 10])
    assert shown["completion_tokens"] == 20


async def test_an_answer_for_which_nothing_is_left_when_it_is_made_anew_ends_as_the_budget_says(
    open_house: OpenHouse,
) -> None:
    """Another turn has taken it meanwhile; who looks meanwhile is told of what was discarded."""
    async with open_pair(open_house, sim={"token_delay_s": 0.1}) as pair:
        await budgeted(pair, 10)
        asking = asyncio.ensure_future(pair.house.ask("b", ignore_eos=True, **RESTARTS))
        await until(lambda: pair.calls and pair.calls[0].emitted)
        for sim in pair.sims.values():
            sim[FAULTS].clear()
        assert (await pair.house.ask("b", [user("Quick?")], max_tokens=3, ignore_eos=True)).status == 200
        answer = await asking
        shown = await pair.house.shown("b")

    assert (answer.status, answer.error["code"]) == (429, "session_budget_exhausted")
    assert (shown["completion_tokens"], shown["aborted_turns"]) == (11, 1)
    assert (await pair.house.ask("b", HELLO)).status == 429
