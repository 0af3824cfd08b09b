"""What is described of sessions is what is read, and written, of them."""

from functools import partial

import orjson
import pytest

from gateway.core.budget import Budget, Spent
from gateway.core.terms import Terms
from gateway.core.types import Sampling
from gateway.errors import BadRequest
from gateway.wire import sessions
from gateway.wire.sessions import SessionState
from tests.wire.bodies import differing, differing_parameters, fields_of, is_read, validator


def budget(body: bytes) -> object:
    """Read a budget."""
    return sessions.decode_creation(b'{"budget": ' + body + b"}")


def test_what_makes_a_session_is_described_as_it_is_read():
    """A name that is not described is refused."""
    assert list(differing("SessionCreation", sessions.decode_creation, {})) == []
    assert list(differing("Budget", budget, {})) == []
    assert not is_read(sessions.decode_creation, {"groupid": "g"})
    assert not validator("SessionCreation").is_valid({"groupid": "g"})


@pytest.mark.parametrize(("name", "within"), [("SessionCreation", "{}"), ("SamplingParams", '{"sampling_params": {}}')])
def test_every_field_that_may_be_said_is_described(name: str, within: str):
    """Those that the refusal of another names."""
    body = within.replace("{}", '{"another": 1}')
    with pytest.raises(BadRequest, match="these are") as refused:
        sessions.decode_creation(body.encode())
    assert sorted(fields_of(name)) == str(refused.value).partition("these are ")[2].split(", ")


def test_what_ends_a_session_is_described_as_it_is_read():
    """And what says that its rows are safe."""
    assert list(differing("SessionFinish", partial(sessions.decode_finish, metadata={}), {})) == []
    assert list(differing("Acknowledgement", sessions.decode_ack, {"session_ids": []})) == []


def test_the_parameters_of_a_listing_are_described_as_they_are_read():
    """Each alone."""
    assert list(differing_parameters("get", "/sessions", sessions.decode_page)) == []


def test_a_session_is_shown_as_it_is_described():
    """With all that may be said of it, and with nothing."""
    sampling = Sampling(temperature=1.0, stop=("x",), extra_args={"a": 1})
    full = Terms("g", "r", {"m": 1}, sampling, sampling, Budget(1, 2, 3), "locked", "keep")
    for terms in (full, Terms()):
        state = SessionState("s", terms, Spent(), 0, finished=True, reward=None, created_s=1.5)
        validator("Session").validate(orjson.loads(sessions.encode_session(state)))
        validator("SessionsPage").validate(orjson.loads(sessions.encode_sessions([state], 7)))
    validator("SessionCreated").validate(orjson.loads(sessions.encode_created("s", "http://h/sessions/s/v1")))
    validator("Freed").validate(orjson.loads(sessions.encode_freed(sessions.Freed(["a"], [], ["b"]))))
