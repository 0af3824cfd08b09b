"""The pytest plugin: tests of agents in three lines, and nothing for those who do not ask for it.

Each of these is a test run of its own, in a folder that has nothing but its test.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.process

ROOT = Path(__file__).parents[2]

AGENT = """
def test_an_agent(gateway):
    with gateway.session("task").openai() as agent:
        agent.chat.completions.create(model="rollout-gateway/demo", messages=[{"role": "user", "content": "Hello"}])
    assert len(gateway.known_session("task").rows()) == 1
"""


def run(folder: Path, test: str, *args: str, conftest: str = "", **environment: str) -> str:
    """What a run says that passes."""
    (folder / "test_it.py").write_text(test)
    (folder / "conftest.py").write_text(conftest)
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST", "COV"))}
    clean |= {"PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}  # tests/installed has it found by itself
    plugins = ["-p", "gateway.client.pytest_plugin", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-W", "error", *plugins, *args, "test_it.py"],
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
        env=clean | environment,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_each_test_has_a_gateway_without_sessions_or_pauses(tmp_path: Path) -> None:
    """An id may be given again, though it is one gateway for all; variables of another gateway's are not its own."""
    left = """
from urllib3 import request

def test_that_leaves_much(gateway):
    gateway.session("task"), gateway.session("other")
    pause = {"mode": "hold", "owner": "left", "lease_s": 600}
    assert request("POST", f"{gateway.url}/admin/pause", json=pause).json()["paused"]


def test_that_finds_nothing(gateway, gateway_sim):
    assert list(gateway.sessions()) == []
    assert gateway.pauses()["paused"] is None
    assert [engine["url"] for engine in gateway.engines()] == [gateway_sim]
"""
    assert "3 passed" in run(tmp_path, AGENT + left, GATEWAY_MODEL="/nowhere", GATEWAY_ADMIN_KEY="k")


def test_options_and_settings_say_how_they_are(tmp_path: Path) -> None:
    """Ranks and tokenizer by option, everything else by a fixture of the user's."""
    settings = """
import pytest

@pytest.fixture(scope="session")
def gateway_settings():
    return {"max_turns": 7, "admin_key": "k"}
"""
    test = """
def test_it(gateway):
    (engine,) = gateway.engines()
    assert len(engine["ranks"]) == 3
    assert gateway.session().show()["budget"]["max_turns"] == 7
    assert gateway.way.admin_key == "k"
"""
    assert "1 passed" in run(tmp_path, test, "--gateway-ranks", "3", conftest=settings)


def test_ones_own_fixtures_come_first(tmp_path: Path) -> None:
    """Their names are not taken."""
    own = """
import pytest

@pytest.fixture
def gateway():
    return "my own"
"""
    assert "1 passed" in run(tmp_path, 'def test_it(gateway):\n    assert gateway == "my own"\n', conftest=own)


def test_a_run_that_asks_for_nothing_gets_nothing(tmp_path: Path) -> None:
    """No module but the plugin's own, so that no time is lost, and no coverage of whoever measures it."""
    test = """
import sys

def test_it():
    assert {name for name in sys.modules if name.partition(".")[0] in ("gateway", "transformers", "aiohttp")} == {
        "gateway", "gateway.client", "gateway.client.pytest_plugin"
    }
"""
    assert "1 passed" in run(tmp_path, test)


def test_to_import_the_client_loads_nothing_heavy() -> None:
    """Neither tokenizers nor the server: a trainer has enough to load."""
    heavy = {"transformers", "torch", "pydantic", "gateway.app", "gateway.settings", "gateway.core", "gateway.wire"}
    code = f"import gateway.client as c, sys; [getattr(c, n) for n in c.__all__]; print({heavy} & {{*sys.modules}})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "set()"
