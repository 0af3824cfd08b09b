"""One gateway and one simulated engine for the tests of a file, each in a thread; both clients before them.

Not for those of other files: what runs in threads draws random numbers, and hypothesis, which counts them, would see its
examples change.
"""

from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

import pytest
import urllib3

from gateway.client import GatewayClient, serve_in_thread
from gateway.render.demo import FOLDER, MODEL_NAME
from tests.client.both import KINDS, connected
from tests.client.scripted import Scripted, scripted
from tests.simulated import simulated

_numbers = count()


@pytest.fixture(scope="module")
def engine_url() -> Iterator[str]:
    """A simulated engine, which takes its time."""
    with simulated(tokenizer=FOLDER, model=MODEL_NAME, ranks=2, first_token_delay_s=0.01) as (url, _):
        yield url


@pytest.fixture(scope="module")
def served(engine_url: str) -> Iterator[GatewayClient]:
    """The gateway."""
    with serve_in_thread(model=MODEL_NAME, engine=(engine_url,), drain_timeout_s=0) as client:
        yield client


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    """Which client."""
    return str(request.param)


@pytest.fixture
def client(kind: str, served: GatewayClient) -> Iterator[Any]:
    """Either client of it."""
    with connected(kind, served.url) as connected_client:
        yield connected_client


@pytest.fixture
def name() -> str:
    """A name that no other test has."""
    return f"name-{next(_numbers)}"


@pytest.fixture
def script() -> Iterator[Callable[..., Scripted]]:
    """A server that answers as it is told."""
    with scripted() as server:
        yield server.told


def ask(session: Any, text: str = "Hello") -> str:
    """One turn of an agent: what it is answered."""
    body = {"model": MODEL_NAME, "messages": [{"role": "user", "content": text}]}
    with urllib3.PoolManager(retries=False) as http:
        answer = http.request("POST", f"{session.base_url}/chat/completions", json=body)
    assert answer.status == 200, answer.data
    content: str = answer.json()["choices"][0]["message"]["content"]
    return content
