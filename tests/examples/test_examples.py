"""What the examples that need this package alone print, and what the gateway holds of them."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway.client import GatewayClient, launch, simulated_engine
from tests.examples.running import ROOT, printed

pytestmark = pytest.mark.process

OF_OTHER_PACKAGES = {"openai_agents", "langchain_agent"}
"""Run by tests/clients, in the environment of these."""


@pytest.fixture(scope="module")
def gateway() -> Iterator[GatewayClient]:
    """A gateway before a simulated engine."""
    with simulated_engine() as engine, launch(model="rollout-gateway/demo", engine=[engine]) as client:
        yield client


def test_every_example_is_run() -> None:
    """Here or there."""
    assert {path.stem for path in (ROOT / "examples").glob("*.py")} == OF_OTHER_PACKAGES | {
        "openai_tool_loop",
        "grpo_loop",
    }


def test_the_tool_loop_leaves_one_row_of_bridged_turns(gateway: GatewayClient, tmp_path: Path) -> None:
    """It prints two answers, and the figures of that row."""
    first, said, second, further, last = printed("openai_tool_loop", gateway.url, home=tmp_path)
    (state,) = gateway.sessions(group_id="weather")
    (row,) = gateway.known_session(state["session_id"]).rows()

    assert (first, second) == ("How warm is it in Zürich?", "And in Genève?")
    assert all("°C" in answer for answer in (said, further))
    assert re.findall(r"\d+", last) == [str(len(row["token_ids"])), str(sum(row["loss_mask"]))]
    assert [turn["how"] for turn in row["turns"]] == ["rendered", "bridged", "bridged", "bridged"]
    assert (state["status"], state["reward"]) == ("finished", 1.0)


def test_the_tool_loop_brings_a_gateway_of_its_own(tmp_path: Path) -> None:
    """Where no other is named."""
    assert "(rendered → bridged → bridged → bridged)" in printed("openai_tool_loop", home=tmp_path)[-1]


def test_the_grpo_loop_trains_each_step_on_its_own_policy(gateway: GatewayClient, tmp_path: Path) -> None:
    """Rewards differ within groups, so that there is a loss; what was pulled is freed, and nothing is held."""
    before = list(gateway.sessions())
    *steps, last = printed("grpo_loop", gateway.url, home=tmp_path)

    assert len(steps) == 3
    for number, step in enumerate(steps):
        assert step.startswith(f"step {number}: 8 rollouts in 2 groups, ")
        assert f"tokens of policy-{number} trained" in step
        assert float(step.rpartition("loss ")[2]) != 0.0
    assert last == f"the gateway holds {len(before)} sessions, and announced policy-2 last"
    assert list(gateway.sessions()) == before
    assert (gateway.policy()["version"], gateway.policy()["source"]) == ("policy-2", "fenced")
    assert gateway.pauses()["paused"] is None
