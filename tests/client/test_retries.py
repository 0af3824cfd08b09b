"""Calls are made again where that helps and does no harm, within bounds; and never else."""

import socket
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from aiohttp.test_utils import unused_port
from tenacity import Future, RetryCallState, Retrying

from gateway.client import GatewayCallError, GatewayConnectionError
from gateway.client.calls import is_ready
from gateway.client.retries import MOST_TRIES, Tries, policy
from tests.client.both import connected
from tests.client.scripted import HANG_UP, Scripted, Told, refused, scripted

Script = Callable[..., Scripted]
POLICY = Told(body={"version": "step-1", "ordinal": 1, "source": "fenced"})
CREATED = Told(201, {"session_id": "s", "base_url": "http://h/sessions/s/v1"})
BUSY = refused(503, "engine_unavailable", Retry_After="0")


def test_a_refused_connection_is_a_failed_connection(kind: str) -> None:
    """No time-out, and no call that might have been carried out: it says that nothing listens, and where."""
    url = f"http://127.0.0.1:{unused_port()}"
    with connected(kind, url, patience_s=0) as client, pytest.raises(GatewayConnectionError) as caught:
        client.remove_engine("http://e")

    assert caught.value.sent is False
    assert f"{url} cannot be reached: is it running" in str(caught.value)


def test_a_host_without_an_address_is_a_failed_connection(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As of a name with an error in it. Nobody beyond this machine is asked for one."""

    def unknown(*_: object, **__: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    with pytest.raises(GatewayConnectionError) as caught, connected(kind, "http://gatway", patience_s=0) as client:
        client.policy()
    assert caught.value.sent is False


@pytest.mark.parametrize("call", ["policy", "session", "remove_engine"])
def test_a_gateway_that_comes_up_late_is_waited_for(kind: str, call: str) -> None:
    """By all calls: what was not received was not carried out."""
    port, arguments = unused_port(), ["http://e"] if call == "remove_engine" else []
    answers: list[Any] = []
    with connected(kind, f"http://127.0.0.1:{port}") as client:
        asking = threading.Thread(target=lambda: answers.append(getattr(client, call)(*arguments)))
        asking.start()
        time.sleep(0.3)
        with scripted(("127.0.0.1", port)) as server:
            server.told(CREATED if call == "session" else POLICY)
            asking.join()
    assert len(answers) == len(server.asked) == 1


@pytest.mark.parametrize("status", [429, 503])
def test_what_was_refused_for_now_is_asked_again(kind: str, script: Script, status: int) -> None:
    """Whatever the call: a refusal has done nothing."""
    server = script(refused(status, "busy", Retry_After="0"), refused(status, "busy"), Told(body={"removed": True}))
    with connected(kind, server.url) as client:
        assert client.remove_engine("http://e") == {"removed": True}
    assert len(server.asked) == 3


def test_what_is_refused_for_good_is_not_asked_again(kind: str, script: Script) -> None:
    """The gateway says so, by its header."""
    server = script(refused(429, "session_budget_exhausted", x_should_retry="false"))
    with connected(kind, server.url) as client, pytest.raises(GatewayCallError) as caught:
        client.policy()
    assert (caught.value.retryable, caught.value.code, len(server.asked)) == (False, "session_budget_exhausted", 1)


@pytest.mark.parametrize("status", [400, 409, 500, 502])
def test_other_refusals_are_told_at_once(kind: str, script: Script, status: int) -> None:
    """A caller may know better what to do."""
    server = script(refused(status, "no"))
    with connected(kind, server.url) as client, pytest.raises(GatewayCallError):
        client.policy()
    assert len(server.asked) == 1


def test_patience_ends_with_the_last_refusal(kind: str, script: Script) -> None:
    """After a few more tries."""
    server = script(BUSY)
    with connected(kind, server.url, patience_s=0.5) as client, pytest.raises(GatewayCallError) as caught:
        client.policy()
    assert (caught.value.status, caught.value.retryable) == (503, True)
    assert 2 <= len(server.asked) <= 12


def test_without_patience_each_call_is_made_once(kind: str, script: Script) -> None:
    """For those who have a policy of their own."""
    server = script(BUSY)
    with connected(kind, server.url, patience_s=0) as client, pytest.raises(GatewayCallError):
        client.policy()
    assert len(server.asked) == 1


def test_a_lost_answer_is_asked_for_again_where_that_does_no_harm(kind: str, script: Script) -> None:
    """As for all that is read, and for what may be said twice."""
    done = Told(body={"session_id": "s"})
    server = script(HANG_UP, POLICY, HANG_UP, done, HANG_UP, POLICY)
    with connected(kind, server.url) as client:
        client.policy()
        client.known_session("s").finish(reward=1.0)
        client.announce("step-1")
    assert [asked.method for asked in server.asked] == ["GET", "GET", "POST", "POST", "POST", "POST"]


def test_what_must_not_be_done_twice_is_not(kind: str, script: Script) -> None:
    """An engine's removal says once how many calls it interrupted. The error says that it may have been done."""
    server = script(HANG_UP)
    with connected(kind, server.url) as client, pytest.raises(GatewayConnectionError, match="may have done") as caught:
        client.remove_engine("http://e")
    assert (caught.value.sent, len(server.asked)) == (True, 1)


def test_a_session_whose_making_was_lost_is_there(kind: str, script: Script) -> None:
    """The second try is told that it exists, and that is the one that the first has made."""
    server = script(HANG_UP, refused(409, "session_exists", x_should_retry="false"))
    with connected(kind, server.url) as client:
        session = client.session("task 1", group_id="g")
    assert (session.id, session.base_url) == ("task 1", f"{server.url}/sessions/task%201/v1")
    assert [asked.body for asked in server.asked] == [{"session_id": "task 1", "group_id": "g"}] * 2


def test_a_session_that_is_there_before_is_a_refusal(kind: str, script: Script) -> None:
    """Also where the gateway was busy at first: a refused call has made none."""
    server = script(BUSY, refused(409, "session_exists", x_should_retry="false"))
    with connected(kind, server.url) as client, pytest.raises(GatewayCallError, match="session_exists"):
        client.session("task-1")


def test_a_gateway_that_says_nothing_is_not_waited_for_longer_than_asked(kind: str, script: Script) -> None:
    """It may have carried out what it was asked."""
    server = script(Told(after_s=1.0))
    with (
        connected(kind, server.url, timeout_s=0.1, patience_s=0) as client,
        pytest.raises(GatewayConnectionError) as no,
    ):
        client.policy()
    assert no.value.sent is True


@pytest.mark.parametrize("body", [b"<html>", b"", b'"text"', b"[1]"])
@pytest.mark.parametrize("status", [200, 404])
def test_what_is_no_gateway_is_said_to_be_none(kind: str, script: Script, status: int, body: bytes) -> None:
    """A proxy's page, say, or another server's answer."""
    server = script(Told(status, body))
    with connected(kind, server.url) as client, pytest.raises(GatewayCallError, match="gateway") as caught:
        client.engines()
    assert (caught.value.status, caught.value.code, caught.value.retryable) == (status, None, False)


def test_a_gateway_that_is_not_ready_says_so_and_is_not_asked_again(kind: str, script: Script) -> None:
    """That is an answer."""
    server = script(Told(503, {"status": "draining"}))
    with connected(kind, server.url) as client:
        assert client.ready() is False
    assert len(server.asked) == 1


def test_each_call_shows_the_key_and_who_calls(kind: str, script: Script) -> None:
    """The admin's before the agent's; without any, none."""
    server = script(POLICY)
    for keys in ({"admin_key": "admin", "agent_key": "agent"}, {"agent_key": "agent"}, {}):
        with connected(kind, server.url, **keys) as client:
            client.policy()
    shown = [asked.headers.get("authorization") for asked in server.asked]
    assert shown == ["Bearer admin", "Bearer agent", None]
    assert all(asked.headers["user-agent"].startswith("rollout-gateway-client/") for asked in server.asked)


def test_a_redirect_is_not_followed(kind: str, script: Script) -> None:
    """A key goes nowhere but to the gateway."""
    server = script(Told(307, {}, {"Location": "http://127.0.0.1:9/"}))
    with connected(kind, server.url, admin_key="admin") as client, pytest.raises(GatewayCallError) as caught:
        client.policy()
    assert caught.value.status == 307


@pytest.mark.parametrize(("told_s", "least_s"), [(7.0, 7.0), (None, 0.0)])
def test_what_the_gateway_says_is_waited_before_another_try(told_s: float | None, least_s: float) -> None:
    """And a little more, so that not all come back at once; else a while that grows, up to seconds."""
    busy = GatewayCallError(
        "busy", call="GET /x", status=503, code="busy", retryable=True, request_id=None, retry_after_s=told_s
    )
    waits = [policy(Tries(is_ready()), 60)["wait"](_tried(busy, attempt)) for attempt in range(1, 30)]

    assert all(least_s < wait_s <= least_s + 2.0 for wait_s in waits)
    assert len(set(waits)) > 1


def test_tries_are_counted() -> None:
    """However patient a client is."""
    busy = GatewayConnectionError("no", sent=False)
    stop = policy(Tries(is_ready()), 1e9)["stop"]

    assert not stop(_tried(busy, MOST_TRIES - 1))
    assert stop(_tried(busy, MOST_TRIES))


def _tried(failure: Exception, attempt: int) -> RetryCallState:
    state = RetryCallState(Retrying(), None, (), {})
    state.attempt_number = attempt
    state.outcome = Future.construct(attempt, failure, has_exception=True)
    state.outcome_timestamp = state.start_time
    state.upcoming_sleep = 0.0
    return state
