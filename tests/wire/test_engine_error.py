"""What engines say when they fail, and what their callers hear of it."""

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.errors import ContextLengthExceeded, EngineProtocolError, EngineRefused, EngineUnavailable
from gateway.wire.engine_error import decode_error
from tests.wire.anything import JSON, mostly, objects

ERRORS = mostly(objects(message=mostly(st.text(max_size=20)), code=mostly(st.integers(300, 700))))


@pytest.mark.parametrize(
    ("status", "body", "kind", "relayed"),
    [
        (400, b'{"error": {"message": "m", "code": 400}}', EngineRefused, 400),
        (404, b'{"error": {"message": "m", "code": 404}}', EngineRefused, 404),
        (405, b'{"error": {"message": "m", "code": 405}}', EngineRefused, 405),
        (404, b'{"detail": "Not Found"}', EngineProtocolError, 502),
        (404, b"<html>", EngineProtocolError, 502),
        (405, b"", EngineProtocolError, 502),
        (403, b"", EngineProtocolError, 502),
        (401, b'{"error": {"message": "m"}}', EngineProtocolError, 502),
        (401, b"\xff", EngineProtocolError, 502),
        (413, b"too large", EngineRefused, 413),
        (422, b"[]", EngineRefused, 422),
        (500, b"", EngineUnavailable, 503),
        (502, b"<html>bad gateway</html>", EngineUnavailable, 503),
        (503, b'{"error": null}', EngineUnavailable, 503),
        (400, b"[" * 5000, EngineRefused, 400),
        (400, b'{"error": {"message": "maximum context length"}}', ContextLengthExceeded, 400),
    ],
)
def test_a_status_means_the_same_with_any_body(status, body, kind, relayed):
    """A proxy between us and the engine answers in its own words."""
    error = decode_error(status, body)
    assert kind is type(error)
    assert relayed == error.status


@pytest.mark.parametrize(
    ("status", "retryable"), [(401, False), (403, False), (408, True), (429, True), (500, True), (503, True)]
)
def test_a_refusal_says_whether_a_retry_can_help(status, retryable):
    """The engine's own status decides."""
    assert retryable is decode_error(status, b"").retryable


@pytest.mark.parametrize("status", [201, 204, 302, 304])
def test_a_status_that_is_no_failure_never_reaches_the_caller(status):
    """An engine that redirects, or answers with nothing, is no engine that we can read."""
    error = decode_error(status, b"")
    assert EngineProtocolError is type(error)
    assert error.status == 502


@pytest.mark.parametrize(
    ("message", "said"),
    [
        ("input was [151644, 8948, 198] and more", "input was […] and more"),
        ("input was [151644, 8948, 19", "input was […]"),
        ("input was [ -1, 2, 'x', 3]", "input was […]"),
        ("see /opt/vllm/lib/python3.11/site-packages/vllm/x.py for more", "see … for more"),
        ("one line\n  File /a/b\n more", "one line"),
        ("x" * 400, "x" * 300),
        ("the model org/name is fine, and so is [7]", "the model org/name is fine, and so is [7]"),
        (
            "3 validation errors: {'type': 'a', 'msg': 'First', 'input': [1, 2]}, {'msg': \"Second\", 'x': 1}",
            "First; Second",
        ),
        ("1 validation error: {'type': 'a', 'input': [1, 2]}", "the request is not valid"),
        ("", ""),
    ],
)
def test_an_engines_message_is_cleaned_of_what_it_echoes(message, said):
    """Prompts, source files and walls of text stay here."""
    error = decode_error(400, orjson.dumps({"error": {"message": message}}))
    assert f"the engine refused the request (400): {said}" == error.message


@settings(deadline=None)
@given(st.integers(400, 599), JSON | objects(error=ERRORS))
def test_every_failing_answer_has_a_meaning(status, body):
    """Whatever stands in it; and what it means is a failure for the caller, too."""
    assert 400 <= decode_error(status, orjson.dumps(body)).status < 600


def test_a_long_error_message_is_cut_before_it_is_searched():
    """A client can make an engine echo what it likes: what lies far behind is not looked at."""
    echoed = "1 validation error:\n {'msg': 'near', 'x'}" + " " * 5000 + "{'msg': 'far', 'x'}"

    assert decode_error(400, orjson.dumps({"error": {"message": echoed}})).message.endswith(": near")
