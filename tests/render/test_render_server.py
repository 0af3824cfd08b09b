"""A server that renders is asked again where that can help, and what it says is told so that somebody can act on it."""

import json
import logging
import os
import time
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest

from gateway.errors import BadRequest, ContextLengthExceeded, EngineLost, EngineUnavailable, RendererError
from gateway.render import patience, render_server
from gateway.render.patience import Patience
from gateway.render.render_server import RETRIES, RenderServer
from tests.render.render_double import CLOSES, RenderDouble, render_double

RENDER = "/v1/chat/completions/render"
SECRET = "my grandmother's recipe"
BODY = {"messages": [{"role": "user", "content": SECRET}]}
BUSY: tuple[int, object, dict[str, str]] = (503, {"error": {"message": "busy"}}, {})


@pytest.fixture
def double():
    with render_double() as server:
        yield server


@pytest.fixture
def impatient(monkeypatch):
    """Without waiting between tries."""
    monkeypatch.setattr(render_server, "RETRIES", RETRIES.new(backoff_factor=0, backoff_jitter=0))


def refused(double: RenderDouble, status: int, words: object) -> Exception:
    """What becomes of an answer that is none."""
    double.says((status, words if isinstance(words, bytes) else {"error": {"message": words}}, {}))
    with pytest.raises(Exception) as caught:
        RenderServer(double.url).ask(RENDER, BODY)
    return caught.value


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503, 504])
def test_what_may_pass_is_asked_again(double, impatient, status):
    """And the same body is sent each time."""
    double.says((status, b"", {}), CLOSES, (status, b"", {}), {"token_ids": [1]})
    assert RenderServer(double.url).ask(RENDER, BODY) == {"token_ids": [1]}
    assert [body for _, body, _ in double.asked] == [BODY] * 4


@pytest.mark.parametrize("answer", [BUSY, CLOSES])
def test_what_does_not_pass_is_for_the_agent_to_try_again(double, impatient, answer):
    """503, after five tries or three: a bounded number."""
    double.says(answer)
    with pytest.raises(EngineUnavailable):
        RenderServer(double.url).ask(RENDER, BODY)
    assert len(double.asked) == (5 if answer is BUSY else 3)


def test_a_server_that_is_not_there_is_named(impatient):
    with render_double() as double:
        gone = double.url
    with pytest.raises(EngineLost, match=f"{gone}, does not answer: NewConnectionError"):
        RenderServer(gone).ask(RENDER, BODY)


def test_a_server_says_how_long_to_wait_and_is_heard_up_to_a_bound(double, monkeypatch):
    """`Retry-After` counts before the backoff; a day would be too long."""
    monkeypatch.setattr(render_server, "RETRIES", RETRIES.new(backoff_factor=60, retry_after_max=0.2))
    double.says((503, b"", {"Retry-After": "86400"}), (429, b"", {"Retry-After": "1"}), {"token_ids": [1]})
    began = time.monotonic()
    RenderServer(double.url).ask(RENDER, BODY)
    assert 0.4 <= time.monotonic() - began < 2
    assert RETRIES.retry_after_max == 10


@pytest.mark.parametrize("said", ["soon", "", "-1", "Wed, 99 Foo"])
def test_a_server_that_says_nonsense_of_it_is_asked_again_all_the_same(double, impatient, said):
    double.says((503, b"", {"Retry-After": said}), {"token_ids": [1]})
    assert RenderServer(double.url).ask(RENDER, BODY) == {"token_ids": [1]}


def test_the_callers_fault_is_final_and_in_the_engines_words(double):
    """Without what it echoes; a prompt that is too long has the code on which harnesses compact."""
    error = refused(double, 400, "Conversation roles must alternate user/assistant")
    assert isinstance(error, BadRequest)
    assert error.message == "the engine cannot render these messages: Conversation roles must alternate user/assistant"
    echoed = f"1 validation error:\n  {{'msg': 'Field required', 'input': '{SECRET}'}}"
    assert SECRET not in str(refused(double, 400, echoed))
    assert isinstance(
        refused(double, 400, "This model's maximum context length is 4096 tokens."), ContextLengthExceeded
    )
    assert isinstance(refused(double, 413, "large"), ContextLengthExceeded)
    assert isinstance(refused(double, 422, "odd"), BadRequest)
    assert len(double.asked) == 5


@pytest.mark.parametrize(
    ("status", "words", "remedy"),
    [
        (403, "Scale-out endpoints are disabled.", "--enable-scale-out"),
        (404, b'{"detail": "Not Found"}', "--enable-scale-out"),
        (401, b'{"error": "Unauthorized"}', "--engine-key"),
        (404, "The model `x` does not exist.", "answered 404: The model `x` does not exist."),
        (409, "odd", "answered 409: odd"),
        (307, b"", "answered 307"),
    ],
)
def test_what_the_operator_must_mend_names_the_remedy_and_is_final(double, status, words, remedy):
    error = refused(double, status, words)
    assert isinstance(error, RendererError)
    assert remedy in error.message
    assert len(double.asked) == 1


@pytest.mark.parametrize("answer", [b"<html>" + b"x" * 5000, b"[1]"])
def test_an_answer_that_is_no_object_is_shown_cut_short(double, answer):
    double.says((200, answer, {}))
    with pytest.raises(RendererError, match="answered no JSON object, but ") as caught:
        RenderServer(double.url).ask(RENDER, BODY)
    assert len(caught.value.message) < 450


@pytest.mark.parametrize(("status", "has"), [(400, True), (422, True), (404, False), (403, False), (405, False)])
def test_whether_a_route_is_there_is_found_out(double, status, has):
    double.says((status, b"", {}))
    assert RenderServer(double.url).has(RENDER) is has


def test_a_server_that_tells_neither_is_no_answer(double, impatient):
    double.says(BUSY)
    with pytest.raises(EngineUnavailable):
        RenderServer(double.url).has(RENDER)


def test_a_server_that_is_starting_is_waited_for(double, impatient, monkeypatch):
    """Until it answers, be it that it is closed; or up to the deadline."""
    monkeypatch.setattr(render_server, "_AGAIN_S", 0.01)
    monkeypatch.setattr(patience, "CALL_S", 0.5)
    for status in (422, 403, 401):
        double.says(*[CLOSES] * 7, BUSY, (status, b"", {}))
        Patience().run(lambda: RenderServer(double.url).wait(RENDER))
    double.says(BUSY)
    with pytest.raises(EngineUnavailable):
        Patience().run(lambda: RenderServer(double.url).wait(RENDER))


def test_it_is_given_the_key_and_asked_at_the_base_url(double):
    """Ranks named behind a URL, and a slash at its end, are no part of it."""
    double.says({})
    RenderServer(f"{double.url}/#dp=2", api_key="sk").ask(RENDER, BODY)
    [(path, _, headers)] = double.asked
    assert (path, headers["authorization"]) == (RENDER, "Bearer sk")


def test_no_log_has_a_prompt_in_it(double, impatient, caplog):
    """Whatever goes wrong, and at any level; nor has an error."""
    caplog.set_level(logging.DEBUG)
    double.says(BUSY, CLOSES, {"token_ids": [1]})
    RenderServer(double.url).ask(RENDER, BODY)
    assert caplog.records
    assert "grandmother" not in caplog.text
    double.says(CLOSES)
    with pytest.raises(EngineLost) as caught:
        RenderServer(double.url).ask(RENDER, BODY)
    assert "grandmother" not in str(caught.value)


def test_calls_that_follow_each_other_share_a_connection(double):
    double.says({})
    server = RenderServer(double.url)
    for _ in range(3):
        server.ask(RENDER, BODY)
    assert double.connections == 1


def test_calls_at_once_do_not_wait_for_each_other(double):
    """The server answers none before it has all eight."""
    double.says({})
    double.gate = Barrier(8)
    server = RenderServer(double.url)
    with ThreadPoolExecutor(8) as threads:
        assert list(threads.map(lambda _: server.ask(RENDER, BODY), range(8))) == [{}] * 8


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_fork_has_connections_of_its_own(double):
    """Parent and child go on at once, each on its own socket, and both are answered what they asked."""
    double.says({"token_ids": [1]})
    server = RenderServer(double.url)
    server.ask(RENDER, BODY)
    reads, writes = os.pipe()
    child = os.fork()
    if child == 0:  # no test runs here: it must not even fail like one
        try:
            told = [server.ask(RENDER, BODY) for _ in range(3)]
            os.write(writes, json.dumps(told).encode())
        finally:
            os._exit(0)
    os.close(writes)
    for _ in range(3):
        assert server.ask(RENDER, BODY) == {"token_ids": [1]}
    with os.fdopen(reads) as pipe:
        assert json.loads(pipe.read()) == [{"token_ids": [1]}] * 3
    os.waitpid(child, 0)
    assert double.connections == 2
