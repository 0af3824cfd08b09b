"""The examples of other packages, in their environment: what they print, and what the gateway holds of them."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway.client import GatewayClient, launch, simulated_engine
from tests.examples.running import printed
from tests.examples.test_examples import OF_OTHER_PACKAGES


@pytest.fixture(scope="module")
def gateway() -> Iterator[GatewayClient]:
    """A gateway before a simulated engine."""
    with simulated_engine() as engine, launch(model="rollout-gateway/demo", engine=[engine]) as client:
        yield client


@pytest.mark.parametrize("name", sorted(OF_OTHER_PACKAGES))
def test_an_agent_of_another_package_leaves_one_row_of_bridged_turns(
    name: str, gateway: GatewayClient, interpreter: Path, tmp_path: Path
) -> None:
    """It prints two answers. It does not replay its reasoning, which is noted, and breaks nothing."""
    session = gateway.known_session(f"example/{name}")
    first, said, second, further = printed(name, session.base_url, interpreter=interpreter, home=tmp_path)
    (row,) = session.rows()

    assert (first, second) == ("How warm is it in Zürich?", "And in Genève?")
    assert all("°C" in answer for answer in (said, further))
    assert [turn["how"] for turn in row["turns"]] == ["rendered", "bridged", "bridged", "bridged"]
    assert {kind for turn in row["turns"] for kind in turn["differences"]} == {"reasoning_dropped"}
    assert sum(row["loss_mask"]) == sum(turn["completion_tokens"] for turn in row["turns"])
