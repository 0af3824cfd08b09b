"""``POST /score``: what the engine makes of a whole row now is what it said when it sampled it."""

import asyncio
from contextlib import suppress

import orjson
import pytest

from gateway.sim import logprob
from tests.edge.house import House, OpenHouse, Words, is_final, until, user
from tests.edge.routes import KEYS, bearer


async def test_a_row_scores_what_its_turns_were_sampled_with(open_house: OpenHouse, words: Words) -> None:
    """Two turns of one row, each id aligned with its own logprob; the first id follows nothing."""
    house = await open_house()
    first = await house.ask("s", script=words.said("Yes."))
    await house.ask("s", [user("Hello?"), first.message, user("Sure?")], words.said("Quite."))
    (row,) = await house.rows("s")

    answer = await house.send("POST", "/score", token_ids=row["token_ids"])

    assert (answer.status, answer.body.keys()) == (200, {"logprobs", "engine", "rank"})
    scores = answer.body["logprobs"]
    assert (len(scores), scores[0]) == (len(row["token_ids"]), 0.0)
    sampled = zip(scores, row["logprobs"], row["loss_mask"], strict=True)
    assert {score - said for score, said, mask in sampled if mask} == {0.0}
    assert house.params[-1] == {**house.params[-1], "max_tokens": 1, "prompt_logprobs": 0, "temperature": 1.0}
    assert house.journal[-1].body["stream"] is False


@pytest.mark.parametrize("length", [39, 40])
async def test_a_row_may_fill_the_context(open_house: OpenHouse, length: int) -> None:
    """The engine needs room for a token, so the last id is asked for in its place."""
    house = await open_house(sim={"max_model_len": 40})
    ids = list(range(100, 100 + length))

    answer = await house.send("POST", "/score", token_ids=ids)

    assert answer.body["logprobs"] == [0.0, *(logprob(at, ids[at]) for at in range(1, length))]


async def test_a_row_beyond_the_context_is_refused_as_such(open_house: OpenHouse) -> None:
    """No engine is asked."""
    house = await open_house(sim={"max_model_len": 40})
    for length in (41, 1 << 19):
        answer = await house.send("POST", "/score", token_ids=list(range(length)))
        assert (answer.status, answer.error["code"]) == (400, "context_length_exceeded")
    assert not house.journal


async def test_an_ill_row_and_an_engines_refusal_are_told(house: House) -> None:
    """In OpenAI's shape, as everything is."""
    ill = await house.send("POST", "/score", token_ids=[1, "2"])
    other = await house.send("POST", "/score", token_ids=[1, 2], model="another")
    media = await house.call("POST", "/score", data=b"x", headers={"Content-Type": "text/plain"})
    house.faults.inject("error_500")
    failed = await house.send("POST", "/score", token_ids=[1, 2])

    assert (ill.status, ill.error["param"]) == (400, "token_ids")
    assert (other.status, other.error["code"]) == (404, "engine_refused")
    assert media.status == 415
    assert (failed.status, failed.error["code"]) == (503, "engine_unavailable")


async def test_an_answer_without_logprobs_is_the_engines_fault(house: House) -> None:
    """Cut short as it may be on the way."""
    house.faults.inject("garbage")
    is_final(await house.send("POST", "/score", token_ids=[1, 2]), 502, "engine_protocol_error")


async def test_scoring_is_the_trainers(open_house: OpenHouse) -> None:
    """An agent's key does not open it."""
    house = await open_house(**KEYS)
    body = orjson.dumps({"token_ids": [1, 2]})
    refused, served = [
        await house.call("POST", "/score", data=body, headers=bearer(KEYS[key])) for key in ("agent_key", "admin_key")
    ]

    assert (refused.status, served.status) == (403, 200)


async def test_rows_wait_while_enough_tokens_are_in_flight(open_house: OpenHouse) -> None:
    """In the order in which they came; one that is longer than the bound goes alone, and one that leaves makes room."""
    house = await open_house(score_tokens_in_flight=100, sim={"first_token_delay_s": 3600})
    lengths = (60, 30, 200, 50, 40)
    calls = []
    for length in lengths:
        calls.append(asyncio.ensure_future(house.send("POST", "/score", token_ids=list(range(length)))))
        await asyncio.sleep(0.02)

    async def asked(count: int) -> list[int]:
        await until(lambda: len(house.journal) == count)
        await asyncio.sleep(0.02)
        return [len(prompt) for prompt in house.prompts]

    try:
        assert await asked(2) == [60, 30]
        calls[0].cancel()
        assert await asked(2) == [60, 30]
        calls[1].cancel()
        assert await asked(3) == [60, 30, 200]
        calls[2].cancel()
        assert await asked(5) == list(lengths)
    finally:
        for call in calls:
            call.cancel()
            with suppress(asyncio.CancelledError):
                await call
    await house.idle()


async def test_a_long_row_is_read_off_the_event_loop_and_scores_alike(open_house: OpenHouse) -> None:
    """Twenty thousand ids."""
    house = await open_house()
    ids = [at * 7 % 150_000 for at in range(20_000)]

    answer = await house.send("POST", "/score", token_ids=ids)

    assert answer.body["logprobs"][1:] == [logprob(at, ids[at]) for at in range(1, 20_000)]
