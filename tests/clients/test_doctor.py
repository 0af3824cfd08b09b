"""`gateway doctor` on agents of real packages, each with its own way to find a model: what it says of their harnesses."""

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from tests.clients.conftest import Json

ROOT = Path(__file__).parents[2]
SCHEMA = json.loads((ROOT / "docs/doctor.schema.json").read_text())
LIMIT_S = 180
QUESTIONS = 3
TURNS = 4
"""For each question: three with calls, and an answer."""

Examine = Callable[..., Json]


@pytest.fixture(scope="module")
def examine(interpreter: Path, tmp_path_factory: pytest.TempPathFactory) -> Examine:
    """Run the doctor on a command, whose words are as they would be typed; from there it reaches this machine only."""

    def run(command: str, *flags: str) -> Json:
        home = tmp_path_factory.mktemp("doctor")
        (home / "sitecustomize.py").write_text((ROOT / "tests/loopback.py").read_text())
        clean = {name: value for name, value in os.environ.items() if not name.startswith(("GATEWAY_", "OPENAI_"))}
        environment = clean | {
            "HOME": str(home),
            "PATH": f"{interpreter.parent}{os.pathsep}{clean['PATH']}",
            "PYTHONPATH": os.pathsep.join([str(home), str(ROOT)]),
            "PYTHONDONTWRITEBYTECODE": "1",
            "LITELLM_LOCAL_MODEL_COST_MAP": "true",
            "MSWEA_SILENT_STARTUP": "1",
        }
        words = [sys.executable, "-m", "gateway", "doctor", "--json", *flags, "--", *shlex.split(command)]
        done = subprocess.run(
            words, check=False, capture_output=True, text=True, env=environment, cwd=home, timeout=LIMIT_S
        )
        assert done.stdout, done.stderr[-5000:]
        told: Json = json.loads(done.stdout)
        Draft202012Validator(SCHEMA).validate(told)
        assert told["exit_code"] == done.returncode
        assert told["agent"]["exit_code"] == 0, done.stderr[-5000:]
        return told

    return run


def test_mini_swe_agent_keeps_its_prefix(examine: Examine) -> None:
    """Its own command line, which finds URL and model in its environment, and ends by its magic words."""
    told = examine("mini --task 'Say hello.' --yolo --exit-immediately")

    assert (told["verdict"], told["turns"], told["rows"], told["accepted"]) == ("keeps", TURNS, 1, [])
    assert told["tools"] == {"called": ["bash"], "left_alone": []}


def test_mini_swe_agent_forgets_an_answer_that_it_cannot_read(examine: Examine) -> None:
    """It complains in its place: the answer is a row of its own, and the prefix is kept."""
    told = examine("mini --task 'Say hello.' --yolo --exit-immediately", "--stumble")

    assert (told["verdict"], told["dropped_answers"], told["rows"]) == ("keeps", [2], 2)
    assert len(told["main_line"]) == told["turns"] - 1


def test_an_agent_that_finds_its_commands_in_text_keeps_its_prefix(examine: Examine) -> None:
    """mini-swe-agent without tools: the model writes between the fences that its instructions show."""
    text_based = "--config mini_textbased --model-class litellm_textbased"
    told = examine(f"mini {text_based} --task 'Say hello.' --yolo --exit-immediately")

    assert (told["verdict"], told["turns"], told["rows"]) == ("keeps", TURNS, 1)
    assert told["tools"] == {"called": [], "left_alone": []}


@pytest.mark.parametrize("agent", ["with_openai_agents", "with_langchain"])
@pytest.mark.parametrize("manner", ["", "stream"])
def test_a_runner_drops_reasoning_and_keeps_its_prefix(examine: Examine, agent: str, manner: str) -> None:
    """Of each answer, whole or streamed; nothing else is changed."""
    told = examine(f"python -m tests.clients.agents.{agent} {{base_url}} {manner}")

    assert (told["verdict"], told["rows"], told["breaks"], told["side_lines"]) == ("keeps", 1, [], [])
    assert told["turns"] == QUESTIONS * TURNS
    assert [(one["kind"], one["answers"]) for one in told["accepted"]] == [("reasoning_dropped", told["turns"] - 1)]
    assert told["tools"] == {"called": ["weather"], "left_alone": []}
