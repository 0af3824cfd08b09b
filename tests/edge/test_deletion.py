"""A deleted session is gone for good, whatever was under way."""

import asyncio
from contextlib import AsyncExitStack

import pytest

from gateway.sim import JOURNAL
from tests.edge.house import HELLO, Answer, House, OpenHouse, Words, is_final, listed, until, user, waiting
from tests.edge.keeping import KeepingStore


async def is_deleted(house: House, session: str) -> None:
    """Nobody can see it or use it, and it does not come back."""
    for path in ("", "/turns", "/trajectories"):
        is_final(await house.send("GET", f"/sessions/{session}{path}"), 404, "session_not_found")
    is_final(await house.ask(session), 409, "session_closed")
    is_final(await house.ask(None, HELLO, headers={"X-Session-ID": session}), 409, "session_closed")
    is_final(await house.send("POST", f"/sessions/{session}/finish", reward=1), 404, "session_not_found")
    is_final(await house.send("POST", "/sessions", session_id=session), 409, "session_closed")
    assert (await house.send("DELETE", f"/sessions/{session}")).status == 204
    assert session not in (await listed(house))[0]


async def test_a_deleted_session_is_gone_for_good(open_house: OpenHouse, words: Words) -> None:
    """From the store too; its neighbours stay."""
    store = KeepingStore()
    house = await open_house(store=store)
    for name in ("s", "t"):
        await house.ask(name, HELLO, words.said("Hi."))

    assert (await house.send("DELETE", "/sessions/s")).status == 204

    await is_deleted(house, "s")
    assert store.deleted == [("s", 2)]
    assert (await listed(house))[0] == ["t"]
    assert len(house.journal) == 2


async def test_a_tombstone_is_forgotten_after_its_time(open_house: OpenHouse) -> None:
    """Then the id is as new."""
    house = await open_house(tombstone_ttl_s=0.05)
    await house.ask("s")
    await house.send("DELETE", "/sessions/s")
    await asyncio.sleep(0.06)

    assert await house.turns("s") == []
    assert (await house.ask("s")).status == 200
    assert len(await house.turns("s")) == 1


async def deleted_meanwhile(house: House, store: KeepingStore, answers: "list[asyncio.Task[Answer]]") -> None:
    """Deleted while calls are under way: they are refused, the engine is left in peace, and no turn is left behind."""
    assert (await house.send("DELETE", "/sessions/s")).status == 204

    for answer in answers:
        is_final(await answer, 409, "session_closed")
        assert "deleted" in (await answer).error["message"]
    assert await house.metric("gateway_turns_in_flight") == 0
    await house.idle()
    await is_deleted(house, "s")
    assert store.deleted == [("s", len(store.turns))]


@pytest.mark.parametrize("known", [False, True])
async def test_deleted_while_its_calls_wait_for_the_engine(open_house: OpenHouse, words: Words, *, known: bool) -> None:
    """In the engine's own queue, or before its first token; in the first turn of a session, or later."""
    store = KeepingStore()
    house = await open_house(sim={"max_running": 1, "first_token_delay_s": 30.0 * (not known)}, store=store)
    if known:
        assert (await house.ask("s", HELLO, words.said("Hi."))).status == 200
        house.faults.inject("stall")
    async with AsyncExitStack() as stack:
        answers = [await stack.enter_async_context(waiting(house, "s", [user(str(at))])) for at in range(3)]
        await until(lambda: len(house.journal) == 3 + known)
        await deleted_meanwhile(house, store, answers)
    assert {turn.status for turn in store.turns} <= {"complete"}


async def test_deleted_while_it_is_sampled(open_house: OpenHouse, words: Words) -> None:
    """What had been sampled is deleted with the rest, after it was stored: nothing is stored later."""
    store = KeepingStore()
    house = await open_house(sim={"token_delay_s": 0.005}, store=store)
    async with waiting(house, "s", HELLO, words.said("A long answer. " * 50)) as answer:
        await until(lambda: house.sim[JOURNAL].running)
        await asyncio.sleep(0.15)
        await deleted_meanwhile(house, store, [answer])
    assert [turn.status for turn in store.turns] == ["aborted"]


async def test_deleted_while_it_is_sampled_and_the_store_fails(open_house: OpenHouse, words: Words) -> None:
    """The agent hears that its session is gone; the deletion can be repeated."""
    store = KeepingStore()
    house = await open_house(store=store)
    house.faults.inject("stall", after=3)
    async with waiting(house, "s", HELLO, words.said("A long answer.")) as answer:
        await until(lambda: house.journal and len(house.journal[0].emitted) == 3)
        await asyncio.sleep(0.05)
        store.failure = OSError("full")
        assert (await house.send("DELETE", "/sessions/s")).status == 500
        is_final(await answer, 409, "session_closed")

    store.failure = None
    assert (await house.send("DELETE", "/sessions/s")).status == 204


async def test_deleted_while_it_is_stored(open_house: OpenHouse, words: Words) -> None:
    """The turn is recorded and answered, and only then deleted: what is stored is stored before."""
    store = KeepingStore()
    house = await open_house(store=store)
    store.hold()
    async with waiting(house, "s", HELLO, words.said("Hi.")) as answer:
        await until(lambda: store.waiting)
        deletion = asyncio.ensure_future(house.send("DELETE", "/sessions/s"))
        again = asyncio.ensure_future(house.send("DELETE", "/sessions/s"))
        await until(lambda: house_refuses(house))
        assert not any(task.done() for task in (answer, deletion, again))

        store.release()

        assert (await answer).status == 200
        assert [(await deletion).status, (await again).status] == [204, 204]
    assert {count for _, count in store.deleted} == {1}
    await is_deleted(house, "s")


async def house_refuses(house: House) -> bool:
    """Whether the session's calls are refused already."""
    return (await house.ask("s")).status == 409


async def test_nothing_of_a_session_is_replayed_once_its_deletion_has_begun(
    open_house: OpenHouse, words: Words
) -> None:
    """Named or found by its retry; nor what was recorded while it was being deleted."""
    store = KeepingStore()
    house = await open_house(store=store)
    unnamed = await house.ask(None, HELLO, words.said("Hi."), headers={"Idempotency-Key": "a"})
    session = unnamed.headers["x-session-id"]
    await house.ask(session, HELLO, words.said("Hi."))
    history = [*HELLO, unnamed.message, user("More.")]
    store.hold()
    late = {"headers": {"Idempotency-Key": "b"}}
    async with waiting(house, None, history, words.said("Yes."), **late) as answer:
        await until(lambda: store.waiting)
        deletion = asyncio.ensure_future(house.send("DELETE", f"/sessions/{session}"))

        async def is_refused() -> bool:
            return (await house.ask(session)).status == 409

        await until(is_refused)
        again = await house.ask(session, HELLO, words.said("Hi."), headers={"x-stainless-retry-count": "1"})
        is_final(again, 409, "session_closed")
        store.release()
        assert ((await answer).status, (await deletion).status) == (200, 204)

    for key, messages in (("a", HELLO), ("b", history)):
        anew = await house.ask(None, messages, words.said("Hi."), headers={"Idempotency-Key": key})
        assert anew.headers["x-session-id"] != session
        assert "x-gateway-replayed" not in anew.headers


async def test_a_deletion_goes_on_when_its_client_leaves(open_house: OpenHouse, words: Words) -> None:
    """Half a deletion would be none."""
    store = KeepingStore()
    house = await open_house(store=store)
    store.hold()
    async with waiting(house, "s", HELLO, words.said("Hi.")) as answer:
        await until(lambda: store.waiting)
        deletion = asyncio.ensure_future(house.send("DELETE", "/sessions/s"))
        await until(lambda: house_refuses(house))
        deletion.cancel()
        store.release()
        assert (await answer).status == 200

    await until(lambda: store.deleted)
    await is_deleted(house, "s")


async def test_other_sessions_do_not_notice_a_deletion(open_house: OpenHouse, words: Words) -> None:
    """Their calls go on."""
    house = await open_house(sim={"token_delay_s": 0.005})
    script = words.said("A somewhat longer answer.")
    async with waiting(house, "s", HELLO, script) as cut, waiting(house, "t", HELLO, script) as whole:
        await until(lambda: len(house.journal) == 2)
        assert (await house.send("DELETE", "/sessions/s")).status == 204

        assert ((await cut).status, (await whole).status) == (409, 200)
    assert [turn["status"] for turn in await house.turns("t")] == ["complete"]
