"""Both clients do what the gateway offers, and say in one way what it refuses."""

import subprocess
import sys
from itertools import islice
from typing import Any

import pytest
from openai import OpenAI

from gateway.client import AsyncGatewayClient, GatewayCallError, GatewayClient, GatewayClientError, PackageMissing
from gateway.client.shapes import EngineState, PauseState, PolicyState, RankState, Row, SessionState
from gateway.render.demo import MODEL_NAME
from tests.client.both import connected
from tests.client.conftest import ask
from tests.client.scripted import Told

FORKED = """
import os
from gateway.client import GatewayClient

with GatewayClient("{url}", patience_s=0, timeout_s=10) as gateway:
    sessions = {{name: gateway.session(f"fork-{{name}}") for name in ("parent", "child")}}
    child = os.fork()
    mine = sessions["parent" if child else "child"]
    wrong = sum(mine.show()["session_id"] != mine.id for _ in range(100))
    os.write(1, f"{{'parent' if child else 'child'}} {{wrong}}\\n".encode())
    if child:
        os.waitpid(child, 0)
"""


def test_a_session_is_made_as_it_is_asked_for(client: Any, name: str) -> None:
    """With all that can be said of it, and the URL that its agent needs."""
    terms = {
        "group_id": "g",
        "rollout_id": f"r-{name}",
        "metadata": {"task": 17},
        "sampling_params": {"temperature": 0.5},
    }
    session = client.session(name, **terms, budget={"max_turns": 3}, client_seed="drop")
    state = session.show()

    assert (session.id, session.base_url) == (name, f"{client.url}/sessions/{name}/v1")
    assert {field: state[field] for field in terms} == terms
    assert (state["budget"]["max_turns"], state["client_seed"], state["status"]) == (3, "drop", "open")
    assert state.keys() == SessionState.__annotations__.keys()


def test_sessions_without_an_id_get_one_each(client: Any) -> None:
    """Which nobody else has."""
    first, second = client.session(), client.session()

    assert first.id != second.id
    assert first.base_url.endswith(f"/{first.id}/v1")


@pytest.mark.parametrize("odd", ["a/b", "with space", "käse", "50%", "a+b", "q?x=1#y"])
def test_ids_may_be_odd(client: Any, name: str, odd: str) -> None:
    """Whatever stands in them reaches the gateway as it is, from the client as from the agent."""
    session = client.session(f"{name}/{odd}")
    ask(session)

    assert session.show()["session_id"] == f"{name}/{odd}"
    assert client.known_session(session.id).base_url == session.base_url
    assert len(session.rows()) == 1


def test_an_agents_turns_are_read_as_turns_and_rows(client: Any, name: str) -> None:
    """With ids where they are asked for; a row has the fields that its type says."""
    session = client.session(name)
    ask(session, "One")
    ask(session, "Two")
    (plain, _), (told, _), rows = session.turns(), session.turns(ids=True), session.rows()

    assert told["turn_id"] == plain["turn_id"]
    assert len(told["completion_ids"]) == len(told["logprobs"]) == plain["completion_tokens"]
    assert [row["session_id"] for row in rows] == [name, name]
    assert rows[0].keys() == Row.__required_keys__
    assert len(rows[0]["token_ids"]) == len(rows[0]["loss_mask"]) == len(rows[0]["logprobs"])


def test_a_selection_of_rows_is_the_gateways(client: Any, name: str) -> None:
    """Words, numbers, truth values and lists."""
    session = client.session(name)
    ask(session)

    (row,) = session.rows(shared="split", distribution=["exact", "truncated"], max_staleness=3)
    assert len(row["loss_weights"]) == len(row["loss_mask"])
    with pytest.raises(GatewayCallError, match="no_such"):
        session.rows(no_such=True)


def test_an_openai_client_of_a_session_is_ready(served: GatewayClient, name: str) -> None:
    """It speaks in the session, and takes options of its own."""
    session = served.session(name)
    with session.openai(timeout=30, max_retries=0) as agent:
        model = agent.models.list().data[0].id
        agent.chat.completions.create(model=model, messages=[{"role": "user", "content": "Hello"}])

    assert isinstance(agent, OpenAI)
    assert agent.timeout == 30
    assert session.show()["turns"] == 1


async def test_an_asynchronous_openai_client_of_a_session_is_ready(served: GatewayClient, name: str) -> None:
    """Likewise."""
    async with AsyncGatewayClient(served.url) as client:
        session = await client.session(name)
        async with session.openai() as agent:
            await agent.chat.completions.create(model=MODEL_NAME, messages=[{"role": "user", "content": "Hello"}])

        assert (await session.show())["turns"] == 1


def test_without_the_openai_package_it_says_so(client: Any, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """And what to do."""
    monkeypatch.setitem(__import__("sys").modules, "openai", None)

    with pytest.raises(PackageMissing, match="pip install openai"):
        client.known_session(name).openai()


def test_a_session_is_finished_and_finished_again(client: Any, name: str) -> None:
    """With another reward; what is said is added to what it has."""
    session = client.session(name, metadata={"task": 1})
    session.finish(reward=0.25)
    session.finish(reward=1.0, metadata={"passed": True})
    state = session.finish()

    assert (state["status"], state["reward"], state["metadata"]) == ("finished", 1.0, {"task": 1, "passed": True})
    assert session.show() == state


@pytest.mark.parametrize("kept", ["task/17", "fläche €/1"])
def test_a_session_is_made_under_the_name_that_balancers_read(kind: str, script: Any, kept: str) -> None:
    """In the header, whatever letters it has, as UTF-8: they hash the same bytes of a path."""
    server = script(Told(201, {"session_id": kept, "base_url": "http://h/v1"}))
    with connected(kind, server.url) as client:
        client.session(kept)
    (asked,) = server.asked
    assert asked.headers["x-session-id"].encode("latin-1").decode() == asked.body["session_id"] == kept


@pytest.mark.parametrize("ill", ["a\nb", " a"])
def test_an_id_that_cannot_be_one_is_refused_by_the_gateway(client: Any, ill: str) -> None:
    """In its words, whatever a header makes of it."""
    with pytest.raises(GatewayCallError, match="cannot be a session id") as caught:
        client.session(ill)
    assert caught.value.status == 400


def test_any_name_goes_through(client: Any, name: str) -> None:
    """To the gateway and back."""
    assert client.session(f"fläche €/{name}").show()["session_id"] == f"fläche €/{name}"


def test_a_deleted_session_is_unknown_and_may_be_deleted_again(client: Any, name: str) -> None:
    """For good."""
    session = client.session(name)
    session.delete()
    session.delete()

    with pytest.raises(GatewayCallError, match="deleted") as caught:
        session.show()
    assert (caught.value.status, caught.value.code) == (404, "session_not_found")


def test_a_refusal_says_all_that_the_gateway_says(client: Any, name: str) -> None:
    """Status, code, whether to try again, which request, and in words what and what to do."""
    client.session(name)
    with pytest.raises(GatewayCallError) as caught:
        client.session(name)
    error = caught.value

    assert (error.status, error.code, error.retryable) == (409, "session_exists", False)
    assert error.request_id is not None
    assert error.request_id.startswith("req_")
    assert error.message.startswith("there is a session")
    assert str(error).startswith(f"POST /sessions: {error.message}")
    assert "will fail again" in str(error)
    assert isinstance(error, GatewayClientError)


def test_sessions_and_rows_come_over_all_pages(client: Any, name: str) -> None:
    """More than one page of each; only those of the group."""
    made = [client.session(group_id=name) for _ in range(101)]
    for session in made[:21]:
        ask(session)
        session.finish(reward=1)

    assert [state["session_id"] for state in client.sessions(group_id=name)] == [session.id for session in made]
    rows = client.rows(group_id=name)
    assert [row["session_id"] for row in rows] == [session.id for session in made[:21]]
    assert len(list(client.rows(group_id=name, status="all", leaves="latest"))) == 21


def test_pages_are_read_as_they_are_needed(served: GatewayClient, name: str) -> None:
    """Whoever stops early has not waited for the rest."""
    made = [served.session(group_id=name) for _ in range(101)]
    some = list(islice(served.sessions(group_id=name), 2))

    assert [state["session_id"] for state in some] == [made[0].id, made[1].id]


def test_what_is_safe_elsewhere_is_freed(client: Any, name: str) -> None:
    """If it has ended."""
    ended, still_open = client.session(f"{name}-1"), client.session(f"{name}-2")
    ended.finish()

    freed = client.free([ended.id, still_open.id, f"{name}-3"])
    assert freed == {"freed": [ended.id], "open": [still_open.id], "unknown": [f"{name}-3"]}


def test_engines_are_shown_added_drained_and_removed(client: Any, engine_url: str) -> None:
    """As an operator would."""
    (own,) = client.engines()
    added = client.add_engine("http://127.0.0.1:9")
    drained = client.drain_engine(engine_url, rank=1)
    back = client.drain_engine(engine_url, rank=1, back=True)
    removed = client.remove_engine("http://127.0.0.1:9")

    assert own.keys() == EngineState.__annotations__.keys()
    assert own["ranks"][0].keys() == RankState.__annotations__.keys()
    assert (added["url"], added["answers"]) == ("http://127.0.0.1:9", False)
    assert [rank["draining"] for rank in drained["ranks"]] == [False, True]
    assert [rank["draining"] for rank in back["ranks"]] == [False, False]
    assert removed == {"url": "http://127.0.0.1:9", "removed": True, "interrupted": 0}
    with pytest.raises(GatewayCallError) as caught:
        client.remove_engine("http://127.0.0.1:9")
    assert caught.value.code == "engine_not_found"


def test_a_policy_is_announced(client: Any, name: str) -> None:
    """And is the one that there is."""
    before = client.policy()
    announced = client.announce(name)

    assert announced.keys() == PolicyState.__annotations__.keys()
    assert (announced["version"], announced["ordinal"]) == (name, before["ordinal"] + 1)
    assert client.policy() == announced


def test_it_tells_whether_it_is_ready_what_is_paused_and_its_metrics(client: Any) -> None:
    """As they are."""
    assert client.ready() is True
    assert client.pauses().keys() == PauseState.__annotations__.keys()
    assert "gateway_paused 0.0" in client.metrics()


def test_a_key_opens_what_it_opens_and_agents_get_their_own(served: GatewayClient, engine_url: str) -> None:
    """The admin's is the client's own, and the agent's only where there is one."""
    assert served.known_session("s").openai().api_key == "unused"
    assert GatewayClient("http://h", admin_key="a", agent_key="b").known_session("s").openai().api_key == "b"
    assert GatewayClient("http://h", admin_key="a").known_session("s").openai().api_key == "a"
    assert "secret" not in repr(GatewayClient("http://h", admin_key="secret", agent_key="secret").way)


@pytest.mark.parametrize("url", ["", "127.0.0.1:8080", "ftp://h", "http://", "http://key@h", "http://h?x=1"])
def test_what_is_no_url_of_a_gateway_is_refused_at_once(url: str) -> None:
    """Before anything is asked."""
    for make in (GatewayClient, AsyncGatewayClient):
        with pytest.raises(ValueError, match="url must be"):
            make(url)


def test_a_key_with_a_line_break_is_refused_at_once() -> None:
    """As one read from a file may have; it is not shown."""
    with pytest.raises(ValueError, match="line break") as caught:
        GatewayClient("http://h", admin_key="secret\n")
    assert "secret" not in str(caught.value)


@pytest.mark.process
def test_a_fork_has_connections_of_its_own(served: GatewayClient) -> None:
    """As a trainer's loaders of data have: over a shared one each would read the other's answers."""
    program = FORKED.format(url=served.url)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)

    assert sorted(done.stdout.splitlines()) == ["child 0", "parent 0"], done.stderr


@pytest.mark.parametrize("odd", ["", ".", "..", "a/../b", "a//b", "/"])
def test_what_would_be_another_sessions_path_is_no_id(client: Any, odd: str) -> None:
    """Dots and empty parts vanish on the way: to delete it would delete another, and its rows would be those of all."""
    with pytest.raises(ValueError, match="cannot be a session id"):
        client.known_session(odd)
