"""A pause lasts exactly as long as its block, and says so when it did not."""

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from gateway.client import (
    GatewayCallError,
    GatewayClient,
    GatewayConnectionError,
    Pause,
    PauseLost,
    calls,
    serve_in_thread,
)
from gateway.render.demo import FOLDER, MODEL_NAME
from tests.client.both import connected, pass_time
from tests.client.conftest import ask
from tests.client.scripted import HANG_UP, Scripted, Told
from tests.simulated import simulated

SLOW_S = 1.5


@pytest.fixture(scope="module")
def slow() -> Iterator[GatewayClient]:
    """A gateway whose engine takes its time."""
    with (
        simulated(tokenizer=FOLDER, model=MODEL_NAME, first_token_delay_s=SLOW_S) as (url, _),
        serve_in_thread(model=MODEL_NAME, engine=(url,), drain_timeout_s=0) as client,
    ):
        yield client


def owners(gateway: GatewayClient) -> dict[str, Any]:
    """The pauses in force, by owner."""
    return {pause["owner"]: pause for pause in (gateway.pauses()["paused"] or {}).get("owners", [])}


def test_agents_wait_while_the_block_runs_and_then_have_the_new_policy(
    client: Any, served: GatewayClient, name: str
) -> None:
    """They notice nothing but the time; what they are answered is of the version that was announced."""
    session = served.session(name)
    agent = threading.Thread(target=ask, args=(session,))
    with client.paused(policy_version=name) as pause:
        agent.start()
        pass_time(client, 0.2)
        assert agent.is_alive()
        assert owners(served)[pause.owner]["mode"] == "drain"
        assert session.show()["turns"] == 0
    agent.join()
    (turn,) = session.turns()

    assert owners(served) == {}
    assert [(span["version"], span["source"]) for span in turn["policy_versions"]] == [(name, "fenced")]


def test_a_block_that_raises_announces_nothing_and_agents_go_on(client: Any, served: GatewayClient, name: str) -> None:
    """Nobody knows what the engines have then: what was announced before is a guess from now on."""
    with client.paused(policy_version=name):
        pass
    assert client.policy()["source"] == "fenced"

    with pytest.raises(ZeroDivisionError) as caught, client.paused(policy_version=f"{name}-next"):
        raise ZeroDivisionError
    assert not hasattr(caught.value, "__notes__")
    assert owners(served) == {}
    assert (client.policy()["version"], client.policy()["source"]) == (name, "assumed")


def test_a_version_may_be_named_within_the_block(client: Any, name: str) -> None:
    """Where it is not known before."""
    with client.paused(mode="hold") as pause:
        pause.policy_version = name
    assert client.policy()["version"] == name


def test_a_pause_without_a_version_announces_none(client: Any) -> None:
    """It only holds."""
    before = client.policy()
    with client.paused(scope="new_sessions", mode="hold", owner="me") as pause:
        assert pause.owner == "me"
    assert client.policy() == before


def test_warnings_of_the_gateway_are_there(client: Any) -> None:
    """Of a lease that is longer than clients wait, say."""
    with client.paused(lease_s=1000) as pause:
        assert "clients that do not stream give up" in pause.warnings[0]


def test_a_lease_is_held_alive_for_as_long_as_the_block_runs(client: Any, served: GatewayClient) -> None:
    """Half as long again as it is, here."""
    with client.paused(lease_s=1.0) as pause:
        pass_time(client, 1.5)
        pause.check()
        assert owners(served)[pause.owner]["for_s"] >= 1.5
    assert owners(served) == {}


def test_a_drain_may_take_longer_than_the_lease(kind: str, slow: GatewayClient) -> None:
    """It is held alive before it is in place, too."""
    agent = threading.Thread(target=ask, args=(slow.session(),))
    agent.start()
    with connected(kind, slow.url) as client:
        pass_time(client, 0.2)
        with client.paused(lease_s=1.0) as pause:
            assert slow.pauses()["in_flight"] == 0
            pause.check()
    agent.join()


def test_a_pause_that_does_not_come_about_in_time_holds_nobody(kind: str, slow: GatewayClient) -> None:
    """Its block does not run."""
    agent = threading.Thread(target=ask, args=(slow.session(),))
    agent.start()
    with connected(kind, slow.url, patience_s=0) as client:
        pass_time(client, 0.2)
        with pytest.raises(GatewayConnectionError, match="no answer"), client.paused(begin_s=0.2):
            pytest.fail("it is not paused")
    assert owners(slow) == {}
    agent.join()


def test_a_pause_that_is_refused_is_none(client: Any, served: GatewayClient) -> None:
    """Its block does not run."""
    with pytest.raises(GatewayCallError, match="mode"), client.paused(mode="nap"):
        pytest.fail("it is not paused")
    assert owners(served) == {}


def test_a_pause_that_somebody_resumed_is_lost(client: Any, served: GatewayClient, name: str) -> None:
    """The block went well, and yet its end raises; the engines have its version all the same."""
    with pytest.raises(PauseLost, match="somebody had resumed"), client.paused(policy_version=name) as pause:
        served.resume(pause.owner)
    assert (client.policy()["version"], owners(served)) == (name, {})


def test_a_pause_that_was_lost_and_begun_anew_by_its_renewal_is_lost(client: Any, served: GatewayClient) -> None:
    """Turns may have run in between, however paused it is now. The block may ask."""
    with pytest.raises(PauseLost, match="before it was renewed"), client.paused(lease_s=1.2) as pause:
        pass_time(client, 0.1)
        served.resume(pause.owner)
        while pause.lost is None:
            pass_time(client, 0.05)
        assert pause.owner in owners(served)
        pause.check()
    assert owners(served) == {}


def test_a_block_that_raises_is_heard_before_a_lost_pause(client: Any, served: GatewayClient) -> None:
    """The first thing that went wrong is what matters."""
    with pytest.raises(ZeroDivisionError), client.paused() as pause:
        served.resume(pause.owner)
        raise ZeroDivisionError


def test_pauses_of_two_programs_are_two(client: Any, served: GatewayClient) -> None:
    """The end of the one leaves the other as it is."""
    with served.paused() as outer:
        with client.paused() as inner:
            assert outer.owner != inner.owner
        assert owners(served).keys() == {outer.owner}


def test_a_gateway_that_goes_away_in_the_block_is_told_of(kind: str, script: Any) -> None:
    """Beside what the block itself raised, with the lease that ends the pause."""
    paused = Told(body={"paused": None, "in_flight": 0, "waiting": 0, "warnings": []})
    server: Scripted = script(paused, HANG_UP)
    with (
        connected(kind, server.url, patience_s=0) as client,
        pytest.raises(ZeroDivisionError) as caught,
        client.paused(lease_s=60),
    ):
        raise ZeroDivisionError
    (note,) = caught.value.__notes__
    assert "its lease of 60 s ends it" in note


def test_a_renewal_that_is_refused_loses_the_pause() -> None:
    """Whatever the reason: nothing holds any more what nobody may renew."""
    pause = Pause()
    beginning, renewing = pause.begin(), pause.renew()
    next(beginning)
    with pytest.raises(StopIteration):
        beginning.send({"paused": None, "in_flight": 0, "waiting": 0, "warnings": []})
    next(renewing)
    with pytest.raises(StopIteration):
        renewing.throw(
            GatewayCallError(
                "no", call="POST /admin/pause", status=403, code="forbidden", retryable=False, request_id=None
            )
        )

    with pytest.raises(PauseLost, match="refused"):
        pause.check()


def test_an_interrupt_at_the_end_of_the_block_holds_nobody(
    client: Any, kind: str, served: GatewayClient, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Agents do not wait for the lease to end, and nothing is announced."""
    interrupt = KeyboardInterrupt if kind == "waiting" else asyncio.CancelledError

    def interrupted() -> None:
        monkeypatch.undo()  # once
        raise interrupt

    with pytest.raises(interrupt), client.paused(name):  # the end is what raises
        assert owners(served)
        monkeypatch.setattr(calls, "show_pauses", interrupted)

    assert not owners(served)
    assert served.policy()["version"] != name
