"""Many calls of one session at once: no lock, no corruption, whoever leaves."""

import asyncio
import random
from collections.abc import Sequence
from contextlib import suppress

import pytest

from gateway.sim import logprob
from tests.edge.house import HELLO, Answer, House, Json, OpenHouse, Words, until, user, waiting
from tests.edge.keeping import KeepingStore


@pytest.mark.process
@pytest.mark.parametrize(("seed", "grace_s"), [(1, 0.0), (2, 0.05), (3, 0.0)])
async def test_calls_cancelled_at_random_leave_a_true_record(
    open_house: OpenHouse, words: Words, seed: int, grace_s: float
) -> None:
    """Thirty-two at once over several branches, resamples, retries and choices among them, wave after wave."""
    store, chance = KeepingStore(), random.Random(seed)
    house = await open_house(store=store, disconnect_grace_s=grace_s, sim={"token_delay_s": 0.003})
    histories: list[list[Json]] = [[user(f"Question {number}?")] for number in range(4)]
    answers: list[Answer] = []
    for wave in range(3):
        calls = [one_call(house, words, chance, chance.choice(histories)) for _ in range(32)]
        answered = [outcome for outcome in await asyncio.gather(*calls) if outcome is not None]
        await settled(house, store)
        for history, answer in answered:
            answers.append(answer)
            replies = [choice["message"] for choice in answer.body["choices"]]
            histories += [[*history, reply, user(f"And {wave}?")] for reply in replies]

    assert 32 < len(answers) < 96
    assert {answer.status for answer in answers} == {200}
    shown = {turn_id for answer in answers for turn_id in answer.headers["x-turn-id"].split(",")}
    complete = {turn.id for turn in store.turns if turn.status == "complete"}
    assert shown <= complete
    assert len(complete) < len(store.turns)
    await audit(house, store)


async def one_call(
    house: House, words: Words, chance: random.Random, history: list[Json]
) -> tuple[list[Json], Answer] | None:
    """One call from a history; it may leave at any time, and then has no answer."""
    script = words.said(chance.choice(["Yes.", "No, never.", "Perhaps, if it does not rain."]))
    headers = chance.choice([{}, {}, {"x-stainless-retry-count": "1"}, {"Idempotency-Key": str(chance.random())}])
    leaves_after_s = chance.choice([None, chance.random() * 0.4])
    n = chance.choice([1, 1, 3])
    with suppress(TimeoutError):
        async with asyncio.timeout(leaves_after_s):
            return history, await house.ask("s", history, script, headers=headers, n=n)
    return None


async def settled(house: House, store: KeepingStore) -> None:
    """Wait until nothing is under way and nothing more is recorded."""
    await house.idle()
    while True:
        before = len(store.turns)
        await asyncio.sleep(0.1)
        await house.idle()
        if len(store.turns) == before:
            return


async def pages(house: House, what: str) -> tuple[list[Json], list[Json]]:
    """All of a listing, and what it leaves out."""
    found: list[Json] = []
    cursor = ""
    while True:
        page = (await house.call("GET", f"/sessions/s/{what}{cursor}")).body
        found += page["data"]
        if page["next"] is None:
            return found, page.get("excluded", [])
        cursor = f"?cursor={page['next']}"


async def audit(house: House, store: KeepingStore) -> None:
    """What is exported is what the engine sampled, each id trained once; what nobody got is only kept."""
    rows, excluded = await pages(house, "trajectories")
    turns, _ = await pages(house, "turns")  # later, so that of what is left out at least as much is known
    assert sorted(turn["turn_id"] for turn in turns) == sorted(turn.id for turn in store.turns)
    assert await house.metric("gateway_turns_total") == len(turns)
    complete = {turn["turn_id"] for turn in turns if turn["status"] == "complete"}
    assert {turn["parent_id"] for turn in turns} <= complete | {None}
    trained = [part["turn_id"] for row in rows for part in row["turns"] if part["trained"]]
    left_out = {left["turn_id"]: left["reason"] for left in excluded}
    assert sorted([*trained, *left_out]) == sorted(turn["turn_id"] for turn in turns)
    lost = {turn["turn_id"] for turn in turns if turn["delivered"] is False}
    for turn_id, reason in left_out.items():
        assert (reason, turn_id in complete) in ([("undelivered", True)] if turn_id in lost else [("aborted", False)])
    sampled = {(ids(entry.token_ids), ids(entry.emitted)) for entry in house.journal if entry.finished}
    for row in rows:
        tokens, mask = row["token_ids"], [0] * len(row["token_ids"])
        for part in row["turns"]:
            start, end = part["start"], part["end"]
            completion = tokens[start:end]
            assert (tuple(tokens[:start]), tuple(completion)) in sampled
            assert row["logprobs"][start:end] == pytest.approx(
                [logprob(at, i) for at, i in enumerate(completion, start)]
            )
            mask[start:end] = [int(part["trained"])] * (end - start)
        assert row["loss_mask"] == mask
        assert len(row["logprobs"]) == len(tokens)
    emitted = [(ids(entry.token_ids), ids(entry.emitted)) for entry in house.journal]
    for turn in store.turns:
        prompt, kept = ids(turn.prompt_ids()), ids(turn.completion.ids)
        assert any(prompt == asked and kept == said[: len(kept)] for asked, said in emitted)


def ids(values: object) -> tuple[int, ...]:
    """Token ids, to be compared."""
    assert isinstance(values, Sequence)
    return tuple(values)


@pytest.mark.parametrize("n", [1, 2])
async def test_a_stalled_engine_delays_nobody_else(house: House, words: Words, n: int) -> None:
    """Others of the same session, of the same history even, are answered and read while one call gets no token."""
    first = await house.ask("s", HELLO, words.said("Hi."))
    history = [*HELLO, first.message, user("And?")]
    house.faults.inject("stall")
    async with waiting(house, "s", history, words.said("Well."), n=n) as stalled:
        await until(lambda: len(house.journal) == 1 + n)
        async with asyncio.timeout(5):
            for messages in (history, HELLO, history, [user("Something else?")]):
                calls = [house.ask("s", messages, words.said("Ok."), n=count) for count in (1, 2)]
                assert {answer.status for answer in await asyncio.gather(*calls)} == {200}
        assert len(await house.turns("s")) == 1 + 4 * 3
        assert not stalled.done()

    await house.idle()
