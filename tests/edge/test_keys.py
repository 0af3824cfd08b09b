"""Who may call what: agents their own routes, the trainer every one, nobody without a key where there are keys."""

import orjson
import pytest

from tests.edge.house import HELLO, House, OpenHouse
from tests.edge.routes import ADMIN_ROUTES, AGENT_ROUTES, KEYS, OPEN_ROUTES, bearer

CHAT = orjson.dumps({"messages": HELLO})


@pytest.fixture
async def locked(open_house: OpenHouse) -> House:
    """A gateway with both keys, and one recorded turn."""
    house = await open_house(**KEYS)
    assert (await house.ask("s", headers=bearer(KEYS["agent_key"]))).status == 200
    return house


@pytest.mark.parametrize(("method", "path"), AGENT_ROUTES + ADMIN_ROUTES)
async def test_nothing_is_served_without_a_key(locked: House, method: str, path: str) -> None:
    """A missing key and a wrong one are both 401."""
    for headers in ({}, bearer("a-key-for"), bearer(""), {"x-api-key": "wrong"}, {"Authorization": "Basic YTpi"}):
        answer = await locked.call(method, path, data=CHAT if method == "POST" else None, headers=headers)
        assert answer.status == 401
        assert answer.error["type"] == "authentication_error"
        assert answer.error["code"] == "invalid_api_key"
    assert len(locked.journal) == 1


@pytest.mark.parametrize(("method", "path"), AGENT_ROUTES)
@pytest.mark.parametrize("key", KEYS.values())
async def test_agents_routes_open_to_both_keys(locked: House, method: str, path: str, key: str) -> None:
    """In either header that SDKs use."""
    for headers in (bearer(key), {"x-api-key": key}):
        answer = await locked.call(method, path, data=CHAT if method == "POST" else None, headers=headers)
        assert answer.status == 200


async def test_the_scheme_of_a_key_may_be_written_in_any_case(locked: House) -> None:
    """RFC 9110, section 11.1: it is case-insensitive."""
    answer = await locked.call("GET", "/v1/models", headers={"authorization": f"bearer {KEYS['agent_key']}"})

    assert answer.status == 200


@pytest.mark.parametrize(("method", "path"), ADMIN_ROUTES)
async def test_what_the_trainer_reads_is_closed_to_agents(locked: House, method: str, path: str) -> None:
    """The agent's key is 403, the admin's opens."""
    refused = await locked.call(method, path, headers=bearer(KEYS["agent_key"]))
    served = await locked.call(method, path, headers=bearer(KEYS["admin_key"]))

    assert refused.status == 403
    assert refused.error["code"] == "forbidden"
    assert served.status == 200


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("POST", "/v1/responses", 404),
        ("GET", "/nothing", 404),
        ("POST", "/sessions/s/v1/embeddings", 404),
        ("GET", "/v1/chat/completions", 405),
        ("DELETE", "/sessions/s/turns", 405),
        ("OPTIONS", "/v1/chat/completions", 405),
    ],
)
async def test_what_is_not_there_is_not_a_matter_of_keys(locked: House, method: str, path: str, status: int) -> None:
    """404 or 405 with either key, which is what an SDK's author looks for; 401 without one."""
    for key in KEYS.values():
        assert (await locked.call(method, path, headers=bearer(key))).status == status
    assert (await locked.call(method, path)).status == 401


async def test_a_key_that_nobody_has_is_not_asked_for(open_house: OpenHouse, locked: House) -> None:
    """With an agent's key alone, the refusal says what to set."""
    only = await (await open_house(agent_key="a")).call("GET", "/sessions/s/turns", headers=bearer("a"))
    both = await locked.call("GET", "/sessions/s/turns", headers=bearer(KEYS["agent_key"]))

    assert only.status == both.status == 403
    assert "nothing does, until the gateway is given an --admin-key" in only.error["message"]
    assert "use the --admin-key" in both.error["message"]


@pytest.mark.parametrize("session", ["v1/s", "a/v1", "v1", "v1%2Fs", "s%2Fv1%2Fx"])
async def test_no_session_id_opens_the_trainers_routes_to_agents(locked: House, session: str) -> None:
    """Whatever an agent calls its session, or tries to, its turns and rows stay the trainer's."""
    name = session.replace("%2F", "/")
    await locked.call(
        "POST", "/v1/chat/completions", data=CHAT, headers={**bearer(KEYS["agent_key"]), "X-Session-ID": name}
    )

    for what in ("turns", "trajectories"):
        answer = await locked.call("GET", f"/sessions/{session}/{what}", headers=bearer(KEYS["agent_key"]))
        assert answer.status in (403, 404)


@pytest.mark.parametrize(("method", "path"), OPEN_ROUTES)
async def test_probes_need_no_key(locked: House, method: str, path: str) -> None:
    """A load balancer asks without one."""
    assert (await locked.call(method, path)).status == 200


async def test_without_keys_everything_is_open(house: House) -> None:
    """As on a developer's own machine."""
    await house.ask("s")

    for method, path in AGENT_ROUTES + ADMIN_ROUTES + OPEN_ROUTES:
        answer = await house.call(method, path, data=CHAT if method == "POST" else None)
        assert answer.status == 200
