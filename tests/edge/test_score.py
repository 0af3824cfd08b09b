"""``POST /score``: what the engine makes of a whole row now is what it said when it sampled it."""

import asyncio
from contextlib import AsyncExitStack, suppress

import orjson
import pytest

from gateway.sim import create_sim, logprob
from tests.edge.house import House, OpenHouse, Words, generated, is_final, serving, until, user
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


async def test_a_row_goes_to_an_engine_that_has_room_for_it(open_house: OpenHouse) -> None:
    """However many others are less loaded; what none has room for does not wait for its turn."""
    async with AsyncExitStack() as stack:
        sims = [create_sim(max_model_len=length) for length in (40, 80, 40)]
        urls = [str((await stack.enter_async_context(serving(sim))).make_url("")) for sim in sims]
        house = await open_house(engine=tuple(urls), score_tokens_in_flight=60)

        scored = [await house.send("POST", "/score", token_ids=list(range(60))) for _ in range(2)]
        assert [answer.status for answer in scored] == [200, 200]
        assert [len(generated(sim)) for sim in sims] == [0, 2, 0]
        await house.http.close()


async def test_a_row_goes_to_an_engine_that_has_the_model(open_house: OpenHouse) -> None:
    """As turns do; the context is that model's."""
    policy, teacher = create_sim(model="policy"), create_sim(model="teacher", max_model_len=64)
    async with serving(policy) as first, serving(teacher) as second:
        house = await open_house(engine=(str(first.make_url("")), str(second.make_url(""))))
        for at in range(5):
            assert (await house.send("POST", "/score", token_ids=[1, 2, 3 + at], model="teacher")).status == 200
        long = await house.send("POST", "/score", token_ids=[1] * 65, model="teacher")
        assert (long.status, long.error["code"]) == (400, "context_length_exceeded")
    assert (len(generated(policy)), len(generated(teacher))) == (0, 5)


async def test_a_row_that_no_engine_has_room_for_does_not_wait(open_house: OpenHouse) -> None:
    """Others are being scored."""
    house = await open_house(score_tokens_in_flight=10, sim={"max_model_len": 40, "first_token_delay_s": 3600})
    call = asyncio.ensure_future(house.send("POST", "/score", token_ids=list(range(20))))
    await until(lambda: house.journal)

    async with asyncio.timeout(2):
        refused = await house.send("POST", "/score", token_ids=list(range(41)))

    assert (refused.status, refused.error["code"]) == (400, "context_length_exceeded")
    call.cancel()
    with suppress(asyncio.CancelledError):
        await call
    await house.idle()


async def test_an_engine_that_returns_masks_scores_a_row_that_fills_its_context(open_house: OpenHouse) -> None:
    """It insists on a `top_k`, and one that truncates nothing is one, too."""
    house = await open_house(sim={"max_model_len": 40, "sampling_mask": True})
    ids = list(range(100, 140))

    answer = await house.send("POST", "/score", token_ids=ids)

    assert (answer.status, answer.body["logprobs"][-1]) == (200, logprob(39, 139))
