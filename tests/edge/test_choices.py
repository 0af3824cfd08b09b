"""Several answers to one call: siblings, sampled each on its own, recorded together or not at all."""

import pytest

from tests.edge.house import HELLO, House, Json, OpenHouse, Words, until, user, waiting
from tests.edge.keeping import KeepingStore


async def test_each_choice_is_a_sibling(house: House, words: Words) -> None:
    """In the order of the ids in `x-turn-id`, on one prompt, which is counted once."""
    first = await house.ask("s", HELLO, words.said("Hi."))
    history = [*HELLO, first.message, user("And?")]

    answer = await house.ask("s", history, words.said("Well."), n=3)

    assert [choice["index"] for choice in answer.body["choices"]] == [0, 1, 2]
    assert [choice["message"]["content"] for choice in answer.body["choices"]] == ["Well."] * 3
    root, *siblings = await house.turns("s")
    assert answer.headers["x-turn-id"].split(",") == [turn["turn_id"] for turn in siblings]
    assert {turn["parent_id"] for turn in siblings} == {root["turn_id"]}
    assert {turn["how"] for turn in siblings} == {"bridged"}
    usage, sampled = answer.body["usage"], sum(turn["completion_tokens"] for turn in siblings)
    assert (usage["prompt_tokens"], usage["completion_tokens"]) == (siblings[0]["prompt_tokens"], sampled)
    assert house.prompts[1] == house.prompts[2] == house.prompts[3]


@pytest.mark.parametrize(
    ("seed", "seeds"),
    [
        ({"seed": 7}, [7, 8, 9]),
        ({"seed": -1}, [None] * 3),
        ({"seed": 2**63 - 2}, [-(2**63), 2**63 - 2, 2**63 - 1]),
        ({}, [None, None, None]),
    ],
)
async def test_each_choice_has_a_call_of_its_own(open_house: OpenHouse, seed: Json, seeds: list[int | None]) -> None:
    """With its own request id and the next seed, so that the engine takes them for different calls."""
    house = await open_house(client_seed="keep")
    await house.ask("s", HELLO, n=3, headers={"X-Request-Id": "r"}, **seed)

    assert sorted((params.get("seed") for params in house.params), key=lambda seed: seed or 0) == seeds
    assert len({entry.request_id for entry in house.journal}) == 3
    assert all("n" not in params for params in house.params)


async def test_each_choice_has_a_lease_of_its_own(open_house: OpenHouse, words: Words) -> None:
    """Three are in flight while three are sampled; the session stays on the rank of the first."""
    house = await open_house(ranks=2, sim={"ranks": 2})
    house.faults.inject("stall", after=1, times=3)
    async with waiting(house, "s", HELLO, words.said("Hi."), n=3):
        await until(lambda: len(house.journal) == 3)
        assert await house.metric("gateway_turns_in_flight") == 3
    await house.idle()

    await house.ask("s", HELLO, words.said("Hi."), n=2)
    await house.ask("s", HELLO, words.said("Hi."))

    first, _, last = [turn for turn in await house.turns("s") if turn["status"] == "complete"]
    assert first["rank"] == last["rank"]


async def test_any_choice_can_be_continued(house: House, words: Words) -> None:
    """The tool call's id tells which it was."""
    called = words.called("Hm.", "weather", {"city": "Rome"})
    answer = await house.ask("s", HELLO, called, n=3)
    turn_ids = answer.headers["x-turn-id"].split(",")

    for index, choice in enumerate(answer.body["choices"]):
        result = {"role": "tool", "tool_call_id": choice["message"]["tool_calls"][0]["id"], "content": "sunny"}
        await house.ask("s", [*HELLO, choice["message"], result], words.said("Sunny."))
        assert (await house.turns("s"))[-1]["parent_id"] == turn_ids[index]


async def test_one_failing_choice_fails_the_call(open_house: OpenHouse, words: Words) -> None:
    """The others are ended, and what was sampled of each is an aborted turn."""
    house = await open_house(sim={"token_delay_s": 0.01})
    house.faults.inject("cut", after=9)

    answer = await house.ask("s", HELLO, words.said("A long answer. " * 40), n=3)

    assert (answer.status, answer.error["code"]) == (503, "engine_unavailable")
    await until(lambda: all(entry.disconnected for entry in house.journal[1:]))
    assert [turn["status"] for turn in await house.turns("s")] == ["aborted"] * 3
    assert await house.rows("s") == []
    await house.idle()


async def test_of_a_choice_without_evidence_nothing_is_kept(open_house: OpenHouse, words: Words) -> None:
    """What was sampled of the others is, as aborted turns."""
    house = await open_house(sim={"token_delay_s": 0.01})
    house.faults.inject("null_logprob", after=5)

    answer = await house.ask("s", HELLO, words.said("A long answer. " * 40), n=3)

    assert (answer.status, answer.error["code"]) == (502, "engine_protocol_error")
    assert [turn["status"] for turn in await house.turns("s")] == ["aborted"] * 2


async def test_a_choice_that_was_done_is_no_complete_turn_when_another_fails(house: House, words: Words) -> None:
    """All are complete, or none."""
    house.faults.inject("cut", after=3)

    answer = await house.ask("s", HELLO, words.said("Hi."), n=2)

    assert answer.status == 503
    assert {turn["status"] for turn in await house.turns("s")} == {"aborted"}
    assert await house.rows("s") == []


async def test_choices_are_stored_all_at_once(open_house: OpenHouse, words: Words) -> None:
    """None is visible before, and none at all when the store fails."""
    store = KeepingStore()
    house = await open_house(store=store)
    store.hold()
    async with waiting(house, "s", HELLO, words.said("Hi."), n=3) as call:
        await until(lambda: store.waiting)
        assert (store.waiting, await house.turns("s")) == (1, [])
        store.failure = OSError("disk full")
        store.release()
        assert (await call).status == 500
    assert await house.turns("s") == []
    store.failure = None

    assert (await house.ask("s", HELLO, words.said("Hi."), n=3)).status == 200
    assert len(store.turns) == len(await house.turns("s")) == 3


async def test_a_client_that_leaves_ends_all_choices(open_house: OpenHouse, words: Words) -> None:
    """What was sampled of each is an aborted turn."""
    house = await open_house(sim={"token_delay_s": 0.01})
    async with waiting(house, "s", HELLO, words.said("A long answer. " * 40), n=3):
        await until(lambda: len(house.journal) == 3 and all(len(entry.emitted) >= 9 for entry in house.journal))

    await until(lambda: all(entry.disconnected for entry in house.journal))
    await house.idle()

    async def are_kept() -> bool:
        return [turn["status"] for turn in await house.turns("s")] == ["aborted"] * 3

    await until(are_kept)
