"""What an engine leaves unfinished is carried on: its agent sees one answer, and the trainer where it was cut."""

import asyncio
from typing import Any, cast

import pytest

from gateway.sim import FAULTS, JOURNAL
from tests.edge.house import Json, OpenHouse, until
from tests.edge.pair import EOS, SAID, Pair, open_pair

LONG: Json = {"ignore_eos": True, "max_tokens": 12}
REASONS = {"cut": "lost", "error_event": "engine_error", "abort": "abort", "no_finish": "no_finish"}
AGAIN = [*SAID, EOS] * 3


@pytest.mark.parametrize("streams", [False, True])
@pytest.mark.parametrize("after", [0, 1, 5])
@pytest.mark.parametrize("kind", REASONS)
async def test_a_cut_answer_goes_on_from_its_tokens(
    open_house: OpenHouse, kind: str, after: int, *, streams: bool
) -> None:
    """However it was cut, and wherever: all that was sampled is in it, and what is sampled next comes behind that."""
    async with open_pair(open_house) as pair:
        pair.faults.inject(kind, after=after)
        told = await pair.ask(streams=streams, return_token_ids=True, **LONG)
        (turn,) = await pair.turns()
        first, second = pair.calls

    assert (told.status, told.error, told.choice["finish_reason"]) == (200, None, "length")
    assert told.choice["token_ids"] == turn["completion_ids"] == pair.emitted == AGAIN[:after] + AGAIN[: 12 - after]
    assert pair.prompt(1) == turn["prompt_ids"] + turn["completion_ids"][:after] == pair.prompt(0) + AGAIN[:after]
    asked = [cast(Json, call.body["sampling_params"])["max_tokens"] for call in (first, second)]
    assert asked == [12, 12 - after]
    places = [(cut["position"], cut["reason"], cut["from_engine"], cut["to_engine"]) for cut in turn["cuts"]]
    there = pair.home if kind == "abort" else pair.away
    assert places == ([(after, REASONS[kind], pair.home, there)] if after else [])
    assert (turn["engine"], turn["status"], turn["ended_by"]) == (there, "complete", "max_tokens")
    (row,) = [row for row in await pair.house.rows("s") if row["row_id"] == turn["turn_id"]]
    assert row["turns"][-1]["cuts"] == turn["cuts"]


@pytest.mark.parametrize("kind", ["error_500", "error_503"])
async def test_a_call_that_an_engine_cannot_take_goes_to_another(open_house: OpenHouse, kind: str) -> None:
    """Nothing was cut, since nothing had been sampled."""
    async with open_pair(open_house) as pair:
        pair.faults.inject(kind)
        told = await pair.ask(streams=False)
        (turn,) = await pair.turns()

    assert told.choice["message"]["content"] == "Hello, world"
    assert (turn["engine"], turn["cuts"]) == (pair.away, [])


@pytest.mark.parametrize("kind", ["not_found", "scale_out_disabled", "no_logprobs"])
async def test_what_no_other_try_can_mend_is_not_tried_again(open_house: OpenHouse, kind: str) -> None:
    """A refusal, and evidence that is missing."""
    async with open_pair(open_house) as pair:
        pair.faults.inject(kind)
        told = await pair.ask(streams=False)
        assert await pair.turns() == []

    assert (told.status, len(pair.calls)) == (502, 1)


async def test_evidence_that_is_missing_after_its_client_was_told_of_the_call_is_the_end(open_house: OpenHouse) -> None:
    """What calls before it had said is kept, as a turn that failed."""
    async with open_pair(open_house) as pair:
        pair.faults.inject("cut", after=5)
        pair.sims[pair.away][FAULTS].inject("sentinel_logprob", after=1)
        told = await pair.ask(streams=True, **LONG)
        (turn,) = await pair.turns()

    assert told.error is not None
    assert told.error["code"] == "engine_protocol_error"
    assert (turn["status"], turn["ended_by"], turn["completion_ids"]) == ("aborted", "infra", AGAIN[:5])
    assert (turn["engine"], turn["cuts"]) == (pair.home, [])


@pytest.mark.parametrize("streams", [False, True])
@pytest.mark.parametrize(
    ("after", "fields", "finish"), [(4, {}, "stop"), (4, {"min_tokens": 4}, "stop"), (3, {"max_tokens": 3}, "length")]
)
async def test_an_answer_that_lacks_nothing_is_not_gone_on_with(
    open_house: OpenHouse, after: int, fields: Json, finish: str, *, streams: bool
) -> None:
    """Its last id ends a turn, or is the last that it may have."""
    async with open_pair(open_house) as pair:
        pair.faults.inject("no_finish", after=after)
        told = await pair.ask(streams=streams, **fields)
        (turn,) = await pair.turns()
        assert await pair.house.metric("gateway_resumes_total", outcome="finished") == 1

    assert (told.choice["finish_reason"], len(pair.calls)) == (finish, 1)
    assert (turn["completion_ids"], turn["finish_reason"], turn["cuts"]) == ([*SAID, EOS][:after], finish, [])


async def test_a_stop_id_before_the_least_length_ends_nothing(open_house: OpenHouse) -> None:
    """The call after asks for what is then left of that length."""
    async with open_pair(open_house) as pair:
        pair.faults.inject("no_finish", after=4)
        await pair.ask(streams=False, min_tokens=6)
        (turn,) = await pair.turns()

    assert turn["completion_ids"] == AGAIN[:8]
    assert pair.params(1)["min_tokens"] == 2


@pytest.mark.parametrize("streams", [False, True])
@pytest.mark.parametrize(("after", "calls"), [(1, 2), (2, 2), (3, 1)])
async def test_a_stop_string_that_a_cut_divides_is_found(
    open_house: OpenHouse, after: int, calls: int, *, streams: bool
) -> None:
    """No engine sees it whole, so the gateway ends the call that completes it."""
    async with open_pair(open_house, sim={"token_delay_s": 0.002}) as pair:
        pair.faults.inject("cut", after=after)
        told = await pair.ask(streams=streams, stop="o, wor", ignore_eos=True, max_tokens=500)
        (turn,) = await pair.turns()

    # The engine begins anew after a cut: "Hello" "Hello, world", or "Hello," "Hello, world", or "Hello, world".
    before = {1: "HelloHell", 2: "Hello,Hell", 3: "Hell"}
    assert (told.choice["finish_reason"], turn["ended_by"]) == ("stop", "stop")
    assert told.choice["message"]["content"] == before[after]
    assert (turn["completion_ids"], len(pair.calls)) == ([*SAID[: after % 3], *SAID], calls)
    assert len(pair.emitted) < 200


@pytest.mark.parametrize("streams", [False, True])
@pytest.mark.parametrize("after", [0, 3])
async def test_an_answer_that_cannot_be_gone_on_with_is_made_anew_if_nothing_was_told(
    open_house: OpenHouse, after: int, *, streams: bool
) -> None:
    """What it was made of first stays as a turn that failed; a client that was told of it is told of the failure."""
    async with open_pair(open_house) as pair:
        pair.faults.inject("cut", after=after)
        told = await pair.ask(streams=streams, presence_penalty=1.0, **LONG)
        turns = await pair.turns()

    if streams and after:
        assert told.error is not None
        assert told.error["code"] == "engine_unavailable"
    else:
        assert pair.prompt(1) == pair.prompt(0)
        assert turns.pop()["completion_ids"] == AGAIN
    kept = [(turn["status"], turn["ended_by"], turn["completion_ids"]) for turn in turns]
    assert kept == [("aborted", "infra", AGAIN[:after])] * bool(after)


async def test_without_attempts_a_cut_is_the_end(open_house: OpenHouse) -> None:
    """As if nobody knew how to go on."""
    async with open_pair(open_house, resume_attempts=0) as pair:
        pair.faults.inject("no_finish", after=4)
        told = await pair.ask(streams=False)
        (turn,) = await pair.turns()

    assert (told.status, turn["status"], len(pair.calls)) == (503, "aborted", 1)


async def test_a_kept_cache_is_told_from_a_lost_one(open_house: OpenHouse) -> None:
    """By what the engine says it had cached, of the prompt alone or of more."""
    async with open_pair(open_house, sim={"block_size": 1}) as pair:
        pair.faults.inject("abort", after=5)
        pair.faults.inject("cut", after=3)
        await pair.ask(streams=False, **LONG)
        (turn,) = await pair.turns()

    assert [(cut["position"], cut["kv"]) for cut in turn["cuts"]] == [(5, "kept"), (8, "recomputed")]
    assert pair.calls[1].cached_tokens > 0
    assert "stream_options" not in pair.calls[0].body
    assert pair.calls[1].body["stream_options"] == {"include_usage": True}


@pytest.mark.parametrize("kind", ["abort", "no_finish", "cut"])
async def test_side_arrays_go_on_too(open_house: OpenHouse, kind: str) -> None:
    """Of each position once: the second call is asked from where the first has told."""
    sim, names = {"routed_experts": (2, 1), "sampling_mask": True}, ("routed_experts", "sampling_mask")
    async with open_pair(open_house, sim=sim, side_arrays=names) as pair:
        pair.faults.inject(kind, after=5)
        await pair.ask(streams=False, top_k=20, **LONG)
        (turn,) = await pair.turns()
        (row,) = [row for row in await pair.house.rows("s") if row["row_id"] == turn["turn_id"]]

    assert all(row["side_arrays"][name] is not None for name in names)
    known = pair.params(1).get("routed_experts_prompt_start", 0)
    assert known in (0, len(pair.prompt(0)) + 4)


@pytest.mark.parametrize("streams", [False, True])
async def test_logprobs_and_alternatives_are_those_of_all_calls(open_house: OpenHouse, *, streams: bool) -> None:
    """As many as there are ids."""
    async with open_pair(open_house) as pair:
        pair.faults.inject("error_event", after=5)
        told = await pair.ask(streams=streams, logprobs=True, top_logprobs=2, **LONG)
        (turn,) = await pair.turns()

    shown = told.choice["logprobs"]["content"]
    assert [round(entry["logprob"], 5) for entry in shown] == [round(value, 5) for value in turn["logprobs"]]
    assert [len(entry["top_logprobs"]) for entry in shown] == [2] * 12


@pytest.mark.parametrize("streams", [False, True])
async def test_a_pause_that_cuts_is_waited_for(open_house: OpenHouse, *, streams: bool) -> None:
    """And the answer says which policy sampled what."""
    async with open_pair(open_house, sim={"token_delay_s": 0.01}, resume_attempts=1) as pair:
        await pair.house.send("POST", "/admin/policy", version="6")
        asking = asyncio.ensure_future(pair.ask(streams=streams, ignore_eos=True, max_tokens=40))
        await until(lambda: pair.calls and len(pair.calls[0].emitted) > 4)
        assert (await pair.house.send("POST", "/admin/pause", mode="cut")).status == 200
        await asyncio.sleep(0.05)
        assert (len(pair.calls), asking.done()) == (1, False)
        await pair.house.send("POST", "/admin/resume", version="7")
        told = await asking
        (turn,) = await pair.turns()

    (cut,) = turn["cuts"]
    assert (told.status, turn["completion_tokens"]) == (200, 40)
    assert (cut["reason"], cut["from_engine"], cut["to_engine"]) == ("pause", pair.home, pair.home)
    spans = [(span["version"], span["start"], span["end"]) for span in turn["policy_versions"]]
    assert spans == [("6", 0, cut["position"]), ("7", cut["position"], 40)]


async def test_an_engine_that_stalls_is_left(open_house: OpenHouse) -> None:
    """Once it has begun to answer, silence is enough."""
    async with open_pair(open_house, engine_stall_s=0.1) as pair:
        pair.faults.inject("stall", after=3)
        told = await pair.ask(streams=True, **LONG)
        (turn,) = await pair.turns()
        await until(lambda: pair.sims[pair.home][JOURNAL].running == 0)

    assert told.status == 200
    assert [(cut["position"], cut["reason"], cut["to_engine"]) for cut in turn["cuts"]] == [(3, "stall", pair.away)]


async def test_an_engine_that_says_it_is_paused_has_not_stalled(open_house: OpenHouse) -> None:
    """However long that takes."""
    async with open_pair(open_house, sim={"token_delay_s": 0.002}, engine_stall_s=0.05) as pair:
        asking = asyncio.ensure_future(pair.ask(streams=False, ignore_eos=True, max_tokens=200))
        await until(lambda: pair.calls and len(pair.calls[0].emitted) > 4)
        async with pair.house.http.session.post(f"{pair.home}/pause?mode=keep") as paused:
            assert paused.status == 200
        await asyncio.sleep(0.3)
        async with pair.house.http.session.post(f"{pair.home}/resume"):
            told = await asking
        (turn,) = await pair.turns()

    assert (told.status, turn["cuts"]) == (200, [])


async def test_a_session_whose_engine_failed_stays_where_it_went(open_house: OpenHouse) -> None:
    """Its context is cached there now."""

    async def again(pair: Pair, **fields: Any) -> str:
        await pair.ask(streams=False, **fields)
        engine: str = (await pair.turns())[-1]["engine"]
        return engine

    async with open_pair(open_house) as pair:
        pair.faults.inject("error_event", after=3)
        assert [await again(pair, **LONG) for _ in range(3)] == [pair.away] * 3
