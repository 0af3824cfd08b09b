"""What asks a network ends when nobody waits for it, and at a deadline, however little by little it is answered."""

import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from gateway.errors import EngineLost
from gateway.render import patience
from gateway.render.patience import Patience
from gateway.render.render_server import RenderServer
from tests.render.render_double import CLOSES, DRIPS, render_double

PATH = "/v1/chat/completions/render"
BUSY: tuple[int, object, dict[str, str]] = (503, b"", {"Retry-After": "10"})


@pytest.fixture
def double():
    with render_double() as server:
        yield server


def given_up_after(double, calls, begun):
    """How long a call lasts that is given up when it has `begun`."""
    waiting, server = Patience(), RenderServer(double.url)
    with ThreadPoolExecutor(1) as thread:
        call = thread.submit(waiting.run, lambda: calls(server))
        begun()
        began = time.monotonic()
        waiting.give_up()
        with pytest.raises(EngineLost, match="has not answered"):
            call.result(5)
    return time.monotonic() - began


def test_an_answer_that_drips_is_not_waited_for_past_the_deadline(double, monkeypatch):
    """Its headers, even; and it is not asked for again. The next call has a deadline of its own."""
    monkeypatch.setattr(patience, "CALL_S", 0.3)
    double.says(DRIPS, {"token_ids": [1]})
    server, began = RenderServer(double.url), time.monotonic()
    with pytest.raises(EngineLost, match="has not answered"):
        server.ask(PATH, {})
    assert 0.3 <= time.monotonic() - began < 2
    assert len(double.asked) == 1
    assert server.ask(PATH, {}) == {"token_ids": [1]}


def test_the_requests_of_one_call_have_one_deadline(double, monkeypatch):
    monkeypatch.setattr(patience, "CALL_S", 0.5)
    double.says({"token_ids": [1]})
    server = RenderServer(double.url)

    def many():
        while True:
            server.ask(PATH, {})

    with pytest.raises(EngineLost, match="has not answered"):
        Patience().run(many)


def test_who_leaves_frees_the_thread_and_the_server(double):
    """At once, while the answer comes; those to whom the server still answers find the connection closed."""
    double.says(DRIPS)
    assert given_up_after(double, lambda server: server.ask(PATH, {}), double.reading.acquire) < 1
    assert double.reading.acquire(timeout=5)


@pytest.mark.parametrize("answer", [BUSY, CLOSES])
def test_nothing_more_is_asked_then(double, answer):
    """Neither in the wait for another try, nor at the next request of the same call."""
    double.says(answer if answer is BUSY else {}, BUSY)

    def calls(server):
        for _ in range(3):
            server.ask(PATH, {})

    def begun():
        while len(double.asked) < (1 if answer is BUSY else 2):
            time.sleep(0.01)
        time.sleep(0.05)

    assert given_up_after(double, calls, begun) < 1
    assert len(double.asked) == (1 if answer is BUSY else 2)
