"""What was pulled is freed: those sessions that have ended, and no others."""

import pytest

from tests.edge.house import HELLO, House, OpenHouse, Words, is_final, until, waiting
from tests.edge.keeping import KeepingStore
from tests.edge.routes import KEYS, bearer


async def ack(house: House, *session_ids: str) -> tuple[list[str], list[str], list[str]]:
    """What became of them: freed, unknown, open."""
    answer = await house.send("POST", "/trajectories/ack", session_ids=session_ids)
    assert (answer.status, list(answer.body)) == (200, ["freed", "unknown", "open"])
    return answer.body["freed"], answer.body["unknown"], answer.body["open"]


async def test_what_has_ended_is_freed_and_nothing_else(open_house: OpenHouse, words: Words) -> None:
    """As by a deletion: the store is told, nothing is replayed, the id is not to be had again. May be repeated."""
    store = KeepingStore()
    house = await open_house(store=store)
    key = {"Idempotency-Key": "k"}
    first = await house.ask(None, HELLO, words.said("Hi."), headers=key)
    ended = first.headers["x-session-id"]
    await house.ask("open", HELLO, words.said("Hi."))
    await house.send("POST", f"/sessions/{ended}/finish", reward=1)

    assert await ack(house, ended, "open", "nobody", ended) == ([ended], ["nobody"], ["open"])
    assert await ack(house, ended) == ([ended], [], [])
    assert await ack(house) == ([], [], [])

    assert [session_id for session_id, _ in store.deleted] == [ended]
    is_final(await house.send("GET", f"/sessions/{ended}/trajectories"), 404, "session_not_found")
    is_final(await house.ask(ended), 409, "session_closed")
    anew = await house.ask(None, HELLO, words.said("Hi."), headers=key)
    assert "x-gateway-replayed" not in anew.headers
    assert len(await house.turns("open")) == 1


async def test_a_finished_session_with_a_call_under_way_is_open(open_house: OpenHouse, words: Words) -> None:
    """Its last turn is still to come; so is that of a session in its first call."""
    store = KeepingStore()
    house = await open_house(store=store)
    store.hold()
    async with waiting(house, "s", HELLO, words.said("Hi.")) as answer:
        await until(lambda: store.waiting)
        assert await ack(house, "s") == ([], [], ["s"])
        await house.send("POST", "/sessions/s/finish")
        assert await ack(house, "s") == ([], [], ["s"])
        store.release()
        assert (await answer).status == 200

    assert await ack(house, "s") == (["s"], [], [])


@pytest.mark.parametrize(
    ("fields", "param"),
    [({"session_id": "s"}, "session_id"), ({"session_ids": "s"}, "session_ids"), ({"session_ids": [1]}, "session_ids")],
)
async def test_an_ill_body_frees_nothing(house: House, fields: dict[str, object], param: str) -> None:
    """A misspelt name would keep sessions for ever."""
    answer = await house.send("POST", "/trajectories/ack", **fields)

    assert (answer.status, answer.error["param"]) == (400, param)
    assert (await house.call("POST", "/trajectories/ack", data=b"{}")).error["param"] == "session_ids"


async def test_agents_free_nothing(open_house: OpenHouse) -> None:
    """Not even what is their own."""
    house = await open_house(**KEYS)

    answer = await house.call("POST", "/trajectories/ack", data=b"{}", headers=bearer(KEYS["agent_key"]))

    assert (answer.status, answer.error["code"]) == (403, "forbidden")
