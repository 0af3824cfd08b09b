"""Durable first, then visible: what a store must have done before a turn is there."""

import asyncio
from collections.abc import Mapping

import orjson
import pytest
from aiohttp.test_utils import TestServer
from structlog.testing import capture_logs

from gateway.app import create_app
from gateway.settings import Settings
from gateway.sim import FAULTS, create_sim
from tests.edge.house import HELLO, MODEL_NAME, House, OpenHouse, Words, serving, until, user, waiting
from tests.edge.keeping import KeepingStore
from tests.edge.marks import is_replayed, keyed, retry


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
    """It is put before it is visible; the client hears what the engine did and does not wait for that."""
    store = KeepingStore()
    house = await open_house(store=store)
    house.faults.inject("cut", after=3)
    store.hold()
    async with waiting(house, "s", HELLO, words.said("A long answer.")) as client:
        await until(lambda: store.waiting)
        assert (await client).status == 503
    assert await house.turns("s") == []

    store.release()

    await until(lambda: store.turns)
    assert [turn.status for turn in store.turns] == ["aborted"]
    assert [turn["status"] for turn in await house.turns("s")] == ["aborted"]


async def test_a_store_that_fails_on_an_aborted_turn_does_not_hide_why_it_was(
    open_house: OpenHouse, words: Words
) -> None:
    """The client may try again, as after every failure of an engine; the log has the store's, without the prompt."""
    store = KeepingStore()
    store.failure = OSError("full")
    house = await open_house(store=store)
    house.faults.inject("cut", after=3)

    with capture_logs() as lines:
        answer = await house.ask("s", [user("swordfish")], words.said("A long answer."))

    assert (answer.status, answer.error["code"], answer.headers["Retry-After"]) == (503, "engine_unavailable", "1")
    assert await house.turns("s") == []
    (line,) = (line for line in lines if line["log_level"] == "error")
    assert (line["event"], line["session_id"]) == ("an aborted turn could not be kept", "s")
    assert "OSError: full" in line["traceback"]
    assert "swordfish" not in repr(lines)


@pytest.mark.parametrize("headers", [retry(), keyed("k")])
@pytest.mark.parametrize("leaves", [False, True])
async def test_a_call_that_is_sure_to_fail_is_not_joined(
    open_house: OpenHouse, words: Words, headers: Mapping[str, str], *, leaves: bool
) -> None:
    """Its aborted turn is still being kept: the retry is sampled, and takes no more of the budget than one turn."""
    store = KeepingStore()
    house = await open_house(store=store, max_turns=1, sim={"token_delay_s": 0.005})
    house.faults.inject("stall" if leaves else "cut", after=3)
    store.hold()
    first = {name: value for name, value in headers.items() if name == "Idempotency-Key"}
    async with waiting(house, "s", HELLO, words.said("Hi, you."), headers=first):
        await until(lambda: house.journal and len(house.journal[0].emitted) == 3)
        if not leaves:
            await until(lambda: store.waiting)
    await until(lambda: store.waiting)
    async with waiting(house, "s", HELLO, words.said("Hi, you."), headers=headers) as again:
        await until(lambda: store.waiting == 2)
        store.release()
        assert ((await again).status, is_replayed(await again)) == (200, False)

    assert sorted(turn["status"] for turn in await house.turns("s")) == ["aborted", "complete"]


async def test_the_application_ends_when_the_last_aborted_turn_is_kept(
    tokenizer_folder: str, open_house: OpenHouse, words: Words
) -> None:
    """Though its client has been told long ago."""
    store, sim = KeepingStore(), create_sim()
    house = await open_house(engine=("http://127.0.0.1:1",))
    async with serving(sim) as engine:
        settings = Settings(
            model=tokenizer_folder, model_name=MODEL_NAME, engine=(str(engine.make_url("")),), resume_attempts=0
        )
        server = TestServer(create_app(settings, store=store))
        await server.start_server()
        sim[FAULTS].inject("cut", after=3)
        store.hold()
        asked = {"messages": HELLO, "vllm_xargs": {"script": words.said("Hi, you.")}}
        answer = await House(house.http, sim).call(
            "POST", str(server.make_url("/v1/chat/completions")), data=orjson.dumps(asked)
        )
        assert answer.status == 503
        ending = asyncio.ensure_future(server.close())
        await asyncio.sleep(0.05)
        assert not ending.done()
        store.release()
        await ending

    assert [turn.status for turn in store.turns] == ["aborted"]


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
