"""Sessions come with their first turn, and ids are checked before they are anything."""

import asyncio

import pytest

from gateway.core.budget import Budget
from gateway.core.terms import Terms
from gateway.core.types import Message, TurnRequest
from gateway.edge.sessions import Sessions, checked_session_id
from gateway.edge.store import MemoryStore
from gateway.edge.turn import TurnCall
from gateway.errors import BadRequest, SessionClosed, SessionExists, TooManyRequests, UnknownSession
from gateway.wire.sessions import Page
from tests.edge.house import KeepingStore, until


@pytest.mark.parametrize("name", ["s", "a/b", "a.b", "...", "run-7/группа", "turns/x", "a b", "x" * 512])
def test_an_id_that_can_stand_in_a_path_is_taken_as_it_is(name: str) -> None:
    """Slashes, dots and other scripts included."""
    assert checked_session_id(name) == name


@pytest.mark.parametrize(
    "name",
    [
        "",
        "/",
        "a/",
        "/a",
        "a//b",
        ".",
        "..",
        "a/./b",
        "a/../b",
        "a/v1/b",
        "v1",
        "a/v1",
        "turns",
        "a/turns",
        "trajectories",
        "finish",
        "a\nb",
        "a\x00",
        chr(0xD800),
    ],
)
def test_an_id_that_cannot_is_refused(name: str) -> None:
    """The error names the field."""
    with pytest.raises(BadRequest) as refused:
        checked_session_id(name)

    assert refused.value.param == "session_id"


def test_an_id_has_an_end() -> None:
    """It stands in URLs and logs; the refusal does not repeat all of it."""
    with pytest.raises(BadRequest) as refused:
        checked_session_id("x" * 513)

    assert len(str(refused.value)) < 200


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
    assert not sessions._sessions


async def test_a_session_is_left_when_its_call_fails() -> None:
    """A failure passes through, and holds nothing."""
    sessions = Sessions()
    with pytest.raises(ValueError, match="no"), sessions.entered(call()):
        raise ValueError("no")

    assert not sessions._sessions


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
    sessions = Sessions(budget=Budget(max_turns=3))
    with sessions.entered(call(n=2)) as session:
        assert session.turns_in_flight == 2
        with pytest.raises(TooManyRequests), sessions.entered(call(n=2)):
            raise AssertionError
        with sessions.entered(call()):
            assert session.turns_in_flight == 3

    with pytest.raises(TooManyRequests), sessions.entered(call(n=4)):
        raise AssertionError
    assert not sessions._sessions


async def test_a_tombstone_stands_for_its_time_and_is_then_forgotten() -> None:
    """Memory of the deleted is bounded by time."""
    now_s = 100.0
    sessions = Sessions(ttl_s=10.0, clock=lambda: now_s)
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
    await until(lambda: sessions._sessions)
    task.cancel()

    await sessions.delete("s", MemoryStore())

    assert task.cancelled()


async def test_a_deleted_session_is_never_found_by_prefix() -> None:
    """Not even when its last answer is noted after its end."""
    sessions = Sessions()
    with sessions.entered(call(anonymous=True)) as session:
        session.deleted = True
        sessions.note(session, [Message("user", "Hello?")], Message("assistant", "Hi."))

    assert sessions.found([Message("user", "Hello?"), Message("assistant", "Hi.")]) is None
