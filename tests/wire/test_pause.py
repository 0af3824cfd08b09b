"""What a trainer says of pauses and policy versions, and what it is told."""

import orjson
import pytest

from gateway.core.pause import PausesInForce
from gateway.core.versions import Versions
from gateway.errors import BadRequest
from gateway.wire.pause import (
    PauseAsked,
    ResumeAsked,
    decode_pause,
    decode_policy,
    decode_resume,
    encode_draining,
    encode_pauses,
    encode_policy,
    header_value,
)


def test_a_pause_needs_but_a_mode():
    """The rest has defaults."""
    assert decode_pause(b'{"mode": "hold"}') == PauseAsked("hold", "all", "default", None)
    whole = b'{"mode": "hold", "scope": "new_sessions", "owner": "me", "lease_s": 2}'
    assert decode_pause(whole) == PauseAsked("hold", "new_sessions", "me", 2)


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ("{}", "mode"),
        ("", "mode"),
        ('{"mode": "stop"}', "mode"),
        ('{"mode": "hold", "scope": "some"}', "scope"),
        ('{"mode": "cut", "scope": "new_sessions"}', "scope"),
        ('{"mode": "hold", "owner": ""}', "owner"),
        ('{"mode": "hold", "owner": 7}', "owner"),
        ('{"mode": "hold", "lease_s": 0}', "lease_s"),
        ('{"mode": "hold", "lease_s": 86401}', "lease_s"),
        ('{"mode": "hold", "lease": 5}', "lease"),
        ("[]", None),
    ],
)
def test_an_ill_pause_is_refused_with_the_field_named(body, param):
    """A misspelt field is one, too: it would be missed when it matters."""
    with pytest.raises(BadRequest) as refusal:
        decode_pause(body.encode())
    assert refusal.value.param == param


def test_a_resume_may_be_empty():
    """Then it ends all pauses, and says nothing of versions."""
    assert decode_resume(b"") == ResumeAsked(None, None)
    assert decode_resume(b'{"owner": "me", "version": "step-7"}') == ResumeAsked("me", "step-7")


@pytest.mark.parametrize("version", ['""', "7", '"unknown"', '"a\\nb"', f'"{"v" * 257}"'])
def test_a_version_is_a_name(version):
    """One that can be printed, and not the name of what nobody knows."""
    for decode in (decode_resume, decode_policy):
        with pytest.raises(BadRequest) as refusal:
            decode(f'{{"version": {version}}}'.encode())
        assert refusal.value.param == "version"


def test_a_policy_needs_a_version():
    """Nothing else can be said of it."""
    assert decode_policy(b'{"version": "step-7"}') == "step-7"
    with pytest.raises(BadRequest, match="version is required"):
        decode_policy(b"")


@pytest.mark.parametrize(
    ("version", "value"),
    [("step-7", "step-7"), ("a/b:c,d", "a/b:c,d"), ("π 100%", "%CF%80%20100%25"), ("a\nb", "a%0Ab"), ("\ud800", "?")],
)
def test_a_header_holds_any_version(version, value):
    """Engines may name one as they like."""
    assert header_value(version) == value


def test_what_is_in_force_is_told_with_what_is_left_of_it():
    """As a whole, and by owner."""
    board = PausesInForce()
    board.begin("a", "hold", "new_sessions", lease_s=10, now_s=0)
    said = orjson.loads(encode_pauses(board, 4, in_flight=1, waiting=2, warnings=["w"]))
    one = {"owner": "a", "mode": "hold", "scope": "new_sessions", "for_s": 4, "lease_left_s": 6}
    assert said == {
        "paused": {"mode": "hold", "scope": "new_sessions", "lease_left_s": 6, "owners": [one]},
        "in_flight": 1,
        "waiting": 2,
        "warnings": ["w"],
    }
    board.begin("b", "cut", "all", lease_s=20, now_s=4)
    said = orjson.loads(encode_pauses(board, 4, in_flight=1, waiting=2, warnings=[]))["paused"]
    assert (said["mode"], said["scope"], said["lease_left_s"], len(said["owners"])) == ("cut", "all", 20, 2)


def test_without_a_pause_none_is_told():
    """`null`, and not an empty one."""
    said = orjson.loads(encode_pauses(PausesInForce(), 0, in_flight=0, waiting=0, warnings=[]))
    assert said["paused"] is None


def test_the_current_policy_is_told_with_its_certainty():
    """Before any announcement there is none."""
    versions = Versions()
    assert orjson.loads(encode_policy(versions.current)) == {"version": None, "ordinal": 0, "source": None}
    for fenced, source in [(False, "assumed"), (True, "fenced")]:
        versions.announce("a", fenced=fenced)
        assert orjson.loads(encode_policy(versions.current)) == {"version": "a", "ordinal": 1, "source": source}


def test_a_drain_is_told_with_what_it_waits_for():
    """How many calls are under way."""
    assert orjson.loads(encode_draining(3)) == {"draining": True, "in_flight": 3}
