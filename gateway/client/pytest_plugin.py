"""Fixtures for tests of agents, known to pytest wherever this package is installed.

`gateway_sim` is the URL of a simulated engine, `gateway` a client of a gateway before it. Each process is started when
the first test asks for it, and serves all tests of the run. Each test has a gateway without sessions: those that it
made are deleted behind it, and what it paused goes on. Policy versions and metrics stay, and what engines have cached.

A test run that uses neither imports nothing but this file; fixtures of one's own with these names take their place.
"""

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from gateway.client import GatewayClient

DEMO_MODEL = "rollout-gateway/demo"


def pytest_addoption(parser: pytest.Parser) -> None:
    """The options of the fixtures."""
    group = parser.getgroup("rollout-gateway", "rollout-gateway: a gateway and a simulated engine for tests of agents")
    group.addoption(
        "--gateway-model",
        default=DEMO_MODEL,
        metavar="FOLDER",
        help="folder of the tokenizer that gateway and engine have (default: the one that comes along)",
    )
    group.addoption("--gateway-ranks", default=1, type=int, metavar="N", help="ranks of the simulated engine")


@pytest.fixture(scope="session")
def gateway_settings() -> dict[str, Any]:
    """Further settings of the gateway, as `launch` takes them: nothing, unless a fixture of yours says otherwise."""
    return {}


@pytest.fixture(scope="session")
def gateway_sim(pytestconfig: pytest.Config) -> Iterator[str]:
    """The URL of a simulated engine, which thinks, calls the tools that it is given, and answers."""
    from gateway.client import simulated_engine

    model = pytestconfig.getoption("--gateway-model")
    knobs = {} if model == DEMO_MODEL else {"model": model}
    with simulated_engine(ranks=pytestconfig.getoption("--gateway-ranks"), **knobs) as url:
        yield url


@pytest.fixture(scope="session")
def _gateway_process(
    pytestconfig: pytest.Config, gateway_sim: str, gateway_settings: dict[str, Any]
) -> "Iterator[GatewayClient]":
    """The gateway of all tests. It has nothing of the ``GATEWAY_…`` variables, which are those of another one."""
    from gateway.client import launch

    environment = {name: value for name, value in os.environ.items() if not name.startswith("GATEWAY_")}
    settings = {"model": pytestconfig.getoption("--gateway-model"), "engine": [gateway_sim], "tombstone_ttl_s": 0}
    with launch(environment=environment, **(settings | gateway_settings)) as client:
        yield client


@pytest.fixture
def gateway(_gateway_process: "GatewayClient") -> "Iterator[GatewayClient]":
    """A client of a gateway before `gateway_sim`, without any session."""
    client = _gateway_process
    yield client
    for pause in (client.pauses()["paused"] or {}).get("owners", []):
        client.resume(pause["owner"])
    for session in list(client.sessions()):
        client.known_session(session["session_id"]).delete()
