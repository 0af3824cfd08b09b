"""Sessions come with their first turn, are listed in the order in which they came, and are deleted for good."""

import asyncio

import pytest

from gateway.core.budget import Budget
from gateway.core.terms import Terms
from gateway.core.types import Message, TurnRequest
from gateway.edge.session import TurnCall
from gateway.edge.sessions import Sessions
from gateway.edge.store import MemoryStore
from gateway.errors import SessionClosed, SessionExists, TooManyRequests, UnknownSession
from gateway.wire.sessions import Finish, Page
from tests.core.toy import Talk
from tests.edge.house import until
from tests.edge.keeping import KeepingStore


def call(session_id: str = "s", *, n: int = 1, anonymous: bool = False) -> TurnCall:
    """A call for one turn, or for `n`."""
    return TurnCall(session_id, TurnRequest((Message("user", "Hello?"),), n=n), ("t",) * n, "r", anonymous=anonymous)


async def test_a_session_without_a_turn_is_forgotten_with_its_last_call() -> None:
    """It is one session as long as anyone is in it."""
    sessions = Sessions()
    with sessions.entered(call()) as outer:
        with sessions.entered(call()) as inner:
            assert inner is outer
        with sessions.entered(call()) as again:
            assert again is outer
    with sessions.entered(call()) as later:
        assert later is not outer
    assert len(sessions) == 0


async def test_a_session_is_left_when_its_call_fails() -> None:
    """A failure passes through, and holds nothing."""
    sessions = Sessions()
    with pytest.raises(ValueError, match="no"), sessions.entered(call()):
        raise ValueError("no")

    assert len(sessions) == 0


async def test_a_session_that_is_only_being_asked_is_not_known() -> None:
    """It counts from its first turn."""
    sessions = Sessions()
    with sessions.entered(call()):
        with pytest.raises(UnknownSession, match="'s'"):
            sessions.get("s")
        assert sessions.listing(Page(0, 10, None)) == ([], None)


async def test_a_session_that_was_made_is_known_at_once_and_stays() -> None:
    """Whether calls come or fail."""
    sessions = Sessions(clock=lambda: 17.0)
    made = sessions.create("s", Terms(group_id="g"))

    with pytest.raises(ValueError, match="no"), sessions.entered(call()):
        raise ValueError("no")

    assert sessions.get("s") is made
    assert (made.terms.group_id, made.created_s) == ("g", 17.0)
    with pytest.raises(SessionExists):
        sessions.create("s", Terms())


async def test_an_id_is_taken_while_a_first_call_uses_it() -> None:
    """The session that it makes is not the one that somebody else would make."""
    sessions = Sessions()
    with sessions.entered(call()), pytest.raises(SessionExists):
        sessions.create("s", Terms())


async def test_a_call_for_several_answers_takes_as_many_turns_of_the_budget() -> None:
    """All of them or none; they are free again when it has failed."""
    sessions = Sessions(defaults=Terms(budget=Budget(max_turns=3)))
    with sessions.entered(call(n=2)) as session:
        assert session.turns_in_flight == 2
        with pytest.raises(TooManyRequests), sessions.entered(call(n=2)):
            raise AssertionError
        with sessions.entered(call()):
            assert session.turns_in_flight == 3

    with pytest.raises(TooManyRequests), sessions.entered(call(n=4)):
        raise AssertionError
    assert len(sessions) == 0


async def test_a_tombstone_stands_for_its_time_and_is_then_forgotten() -> None:
    """Memory of the deleted is bounded by time."""
    now_s = 100.0
    sessions = Sessions(tombstone_ttl_s=10.0, clock=lambda: now_s)
    for session_id in ("a", "b"):
        sessions.create(session_id, Terms())
        await sessions.delete(session_id, MemoryStore())
        now_s += 5.0
    for refused in (lambda: sessions.create("b", Terms()), sessions.entered(call("b")).__enter__):
        with pytest.raises(SessionClosed, match="deleted"):
            refused()
    with pytest.raises(UnknownSession, match="deleted"):
        sessions.get("b")

    assert sessions.create("a", Terms()) is sessions.get("a")
    assert list(sessions._tombstones) == ["b"]
    now_s += 5.0
    sessions.create("b", Terms())
    assert not sessions._tombstones


async def test_deleting_twice_is_deleting_once_and_deleting_nothing_is_an_error() -> None:
    """A client that lost the answer may ask again."""
    sessions, store = Sessions(), KeepingStore()
    sessions.create("s", Terms())

    await sessions.delete("s", store)
    await sessions.delete("s", store)

    assert store.deleted == [("s", 0)]
    with pytest.raises(UnknownSession):
        await sessions.delete("other", store)


async def test_a_deletion_that_failed_in_the_store_is_tried_again() -> None:
    """Until then nobody sees the session, and nobody may use it."""
    sessions, store = Sessions(), KeepingStore()
    sessions.create("s", Terms())
    store.failure = OSError("disk")
    with pytest.raises(OSError, match="disk"):
        await sessions.delete("s", store)
    with pytest.raises(UnknownSession):
        sessions.get("s")
    with pytest.raises(SessionClosed), sessions.entered(call()):
        raise AssertionError
    assert sessions.listing(Page(0, 10, None)) == ([], None)

    store.failure = None
    await sessions.delete("s", store)

    assert store.deleted == [("s", 0)]


async def test_a_call_that_two_cancel_is_cancelled() -> None:
    """The refusal is for a client that still listens; who stops the task otherwise sees it stopped."""
    sessions = Sessions()

    async def take() -> None:
        with sessions.entered(call()):
            await asyncio.Event().wait()

    task = asyncio.ensure_future(take())
    await until(lambda: len(sessions))
    task.cancel()

    await sessions.delete("s", MemoryStore())

    assert task.cancelled()


async def test_a_deleted_session_is_never_found_by_prefix() -> None:
    """Not even when its last answer is noted after its end."""
    sessions, talk = Sessions(), Talk()
    turn = talk.take(Message("user", "Hello?"), answer=Message("assistant", "Hi."))
    history = TurnRequest((Message("user", "Hello?"), turn.message))
    with sessions.entered(call(anonymous=True)) as session:
        session.deleted = True
        sessions.note(session, history.messages[:1], [turn])

    assert sessions.found(history) is None


async def test_a_session_has_its_place_in_listings_from_when_it_exists() -> None:
    """Made, finished in its first call, or with its first turn: what is new is after all that was shown before."""
    sessions = Sessions()

    def listed(after: int = 0) -> list[str]:
        return [state.session_id for state in sessions.listing(Page(after, 10, None))[0]]

    with sessions.entered(call("turn")) as turn, sessions.entered(call("finished")) as finished:
        for name in ("a", "b"):
            sessions.create(name, Terms())
        last = sessions.get("b").number
        sessions.finish(finished, Finish(None, {}))
        assert listed(last) == ["finished"]
        Talk(turn.ledger).take(Message("user", "Hello?"))
    sessions.create("c", Terms())
    assert listed(last) == ["finished", "turn", "c"]
    sessions.finish(finished, Finish(1.0, {}))
    assert listed() == ["a", "b", "finished", "turn", "c"]


class SlowStore(KeepingStore):
    """Deletes when it is let."""

    def __init__(self) -> None:
        super().__init__()
        self.deletes: list[asyncio.Event] = []

    async def delete(self, session_id: str) -> None:
        """Wait until the test lets this one go on."""
        self.deletes.append(asyncio.Event())
        await self.deletes[-1].wait()
        await super().delete(session_id)


async def test_overlapping_deletions_never_delete_a_new_session_of_that_id() -> None:
    """Even without a tombstone: the second waits for the first, and has nothing left to do, in the store neither."""
    sessions, store = Sessions(tombstone_ttl_s=0), SlowStore()
    sessions.create("s", Terms())
    first, second = (asyncio.ensure_future(sessions.delete("s", store)) for _ in range(2))
    await until(lambda: store.deletes)
    with pytest.raises(SessionClosed):
        sessions.create("s", Terms())

    store.deletes[0].set()
    await first
    new = sessions.create("s", Terms())
    await second

    assert sessions.get("s") is new
    assert len(store.deleted) == len(store.deletes) == 1


async def test_a_second_deletion_goes_on_where_the_first_failed() -> None:
    """It was waiting for it."""
    sessions, store = Sessions(), SlowStore()
    sessions.create("s", Terms())
    first, second = (asyncio.ensure_future(sessions.delete("s", store)) for _ in range(2))
    await until(lambda: store.deletes)
    store.failure = OSError("disk")
    store.deletes[0].set()
    with pytest.raises(OSError, match="disk"):
        await first

    await until(lambda: len(store.deletes) == 2)
    store.failure = None
    store.deletes[1].set()
    await second

    assert store.deleted == [("s", 0)]
    assert len(sessions) == 0


async def test_what_a_deleted_session_answered_is_forgotten_first_and_once_more_before_the_store_is_told() -> None:
    """In between its last calls may have ended."""
    told: list[str] = []
    sessions = Sessions()

    class Store(MemoryStore):
        async def delete(self, session_id: str) -> None:
            told.append(f"store {session_id}")

    async def take() -> None:
        task_call = call()
        with sessions.entered(task_call):
            task_call.sealed = True
            await asyncio.sleep(0.01)
            told.append("recorded")

    task = asyncio.ensure_future(take())
    await until(lambda: len(sessions))
    await sessions.delete("s", Store(), lambda name: told.append(f"forget {name}"))
    await task

    assert told == ["forget s", "recorded", "forget s", "store s"]
