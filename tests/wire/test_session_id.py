"""What may be a session id, and what is said where it may not."""

import pytest

from gateway.errors import BadRequest
from gateway.wire.session_id import checked_session_id, fault_of


@pytest.mark.parametrize("name", ["s", "a/b", "a.b", "...", "run-7/группа", "turns/x", "a b", "x" * 512])
def test_an_id_that_can_stand_in_a_path_is_taken_as_it_is(name):
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
        " a",
        "a ",
        " ",
    ],
)
def test_an_id_that_cannot_is_refused(name):
    """The error names the field."""
    with pytest.raises(BadRequest) as refused:
        checked_session_id(name)

    assert refused.value.param == "session_id"


def test_an_id_has_an_end():
    """It stands in URLs and logs; the refusal does not repeat all of it."""
    with pytest.raises(BadRequest) as refused:
        checked_session_id("x" * 513)

    assert len(str(refused.value)) < 200


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("x" * 513, "more than 512 characters"),
        ("a\tb", "cannot be printed"),
        (" a", "white space"),
        ("a//b", "is empty"),
        ("a/../b", "is empty, . or .."),
        ("s/v1", "does the base URL have /v1 twice"),
        ("a/turns", "reserved, as are turns, trajectories, finish, v1"),
    ],
)
def test_a_refusal_says_why(name, why):
    """And one that can be an id has no fault."""
    with pytest.raises(BadRequest) as refused:
        checked_session_id(name)

    assert why in refused.value.message
    assert fault_of("a") is None
