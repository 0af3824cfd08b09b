"""Sessions come with their first turn, and ids are checked before they are anything."""

import pytest

from gateway.edge.sessions import Sessions, checked_session_id
from gateway.errors import BadRequest, UnknownSession


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


def test_a_session_without_a_turn_is_forgotten_with_its_last_call() -> None:
    """It is one session as long as anyone is in it."""
    sessions = Sessions()
    with sessions.entered("s") as outer:
        with sessions.entered("s") as inner:
            assert inner is outer
        with sessions.entered("s") as again:
            assert again is outer
    with sessions.entered("s") as later:
        assert later is not outer
    assert not sessions._sessions


def test_a_session_is_left_when_its_call_fails() -> None:
    """A failure passes through, and holds nothing."""
    sessions = Sessions()
    with pytest.raises(ValueError, match="no"), sessions.entered("s"):
        raise ValueError("no")

    assert not sessions._sessions


def test_a_session_that_is_only_being_asked_is_not_known() -> None:
    """It counts from its first turn."""
    sessions = Sessions()
    with sessions.entered("s"), pytest.raises(UnknownSession, match="'s'"):
        sessions.get("s")
