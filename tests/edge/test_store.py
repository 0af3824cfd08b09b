"""Durable first, then visible: what a store must have done before a turn is there."""

import asyncio

import pytest

from tests.edge.house import HELLO, KeepingStore, OpenHouse, Words, until, user, waiting


async def test_a_turn_is_visible_only_when_it_is_kept(open_house: OpenHouse, words: Words) -> None:
    """While the store is at work there is no turn, no row and no answer; then all three are there."""
    store = KeepingStore()
    house = await open_house(store=store)
    store.hold()
    async with waiting(house, "s", HELLO, words.said("Hi.")) as client:
        await until(lambda: store.waiting)
        assert await house.turns("s") == []
        assert await house.rows("s") == []
        assert not client.done()
        store.release()
        assert (await client).status == 200

    assert [turn["turn_id"] for turn in await house.turns("s")] == [turn.id for turn in store.turns]


@pytest.mark.parametrize("calls_before", [0, 1])
async def test_a_client_that_leaves_while_its_turn_is_kept_does_not_undo_it(
    open_house: OpenHouse, words: Words, calls_before: int
) -> None:
    """The turn is complete: it is committed, and a later call extends it."""
    store = KeepingStore()
    house = await open_house(store=store)
    messages = list(HELLO)
    for _ in range(calls_before):
        messages += [(await house.ask("s", messages, words.said("Hi."))).message, user("And?")]
    store.hold()
    async with waiting(house, "s", messages, words.said("Yes.")):
        await until(lambda: store.waiting)
    store.release()

    await until(lambda: len(store.turns) == calls_before + 1)
    turn = (await house.turns("s"))[-1]
    assert turn["status"] == "complete"
    after = await house.ask("s", [*messages, {"role": "assistant", "content": "Yes."}, user("Ok.")], words.said("Ok."))
    assert after.status == 200
    assert (await house.turns("s"))[-1]["parent_id"] == turn["turn_id"]


@pytest.mark.parametrize("calls_before", [0, 1])
async def test_a_turn_that_cannot_be_kept_was_never_there(
    open_house: OpenHouse, words: Words, calls_before: int
) -> None:
    """The client hears 500 and not what the store said; the next call attaches to the last turn that was kept."""
    store = KeepingStore()
    house = await open_house(store=store)
    messages = list(HELLO)
    for _ in range(calls_before):
        messages += [(await house.ask("s", messages, words.said("Hi."))).message, user("And?")]
    before = await house.turns("s")
    store.failure = OSError("the disk at /secret/place is full")

    answer = await house.ask("s", messages, words.said("Yes."))

    assert answer.status == 500
    assert answer.error["type"] == "server_error"
    assert "secret" not in answer.error["message"]
    assert await house.turns("s") == before
    assert await house.metric("gateway_turns_in_flight") == 0

    store.failure = None
    assert (await house.ask("s", messages, words.said("Yes."))).status == 200
    assert (await house.turns("s"))[-1]["parent_id"] == (before[-1]["turn_id"] if before else None)


async def test_a_failure_that_nobody_waits_for_leaves_no_turn_either(open_house: OpenHouse, words: Words) -> None:
    """The client has left, the store fails: the gateway serves on."""
    store = KeepingStore()
    house = await open_house(store=store)
    store.hold()
    store.failure = OSError("full")
    async with waiting(house, "s", HELLO, words.said("Hi.")):
        await until(lambda: store.waiting)
    store.release()
    await until(lambda: not store.waiting)
    store.failure = None

    assert await house.turns("s") == []
    assert (await house.ask("s", HELLO, words.said("Hi."))).status == 200


async def test_an_aborted_turn_is_kept_like_any_other(open_house: OpenHouse, words: Words) -> None:
    """It is put before it is visible, and not visible when that fails; the client hears what the engine did."""
    store = KeepingStore()
    house = await open_house(store=store)
    house.faults.inject("cut", after=3)
    store.hold()
    async with waiting(house, "s", HELLO, words.said("A long answer.")) as client:
        await until(lambda: store.waiting)
        assert await house.turns("s") == []
        store.release()
        assert (await client).status == 503

    assert [turn.status for turn in store.turns] == ["aborted"]
    assert len(await house.turns("s")) == 1


async def test_calls_of_one_session_do_not_wait_for_each_others_store(open_house: OpenHouse, words: Words) -> None:
    """One put that hangs is one turn that hangs."""
    store = KeepingStore()
    house = await open_house(store=store)
    store.hold()
    async with (
        waiting(house, "s", HELLO, words.said("Hi.")) as one,
        waiting(house, "s", HELLO, words.said("Ho.")) as two,
    ):
        await until(lambda: store.waiting == 2)
        store.release()
        answers = await asyncio.gather(one, two)

    assert [answer.message["content"] for answer in answers] == ["Hi.", "Ho."]
    assert len(await house.turns("s")) == 2
