"""The agent's process: what it is told, how it ends, and that nothing of it stays."""

import asyncio
import json
import os
import signal
import sys
from pathlib import Path

import pytest

from gateway.doctor.agent import Agent, environment_of
from gateway.errors import ConfigError
from tests.doctor.conftest import until

URL = "http://127.0.0.1:1/v1"
DEAF = """
import os, signal, time
for number in (signal.SIGINT, signal.SIGTERM):
    signal.signal(number, signal.SIG_IGN)
print(os.getpid(), file=open({!r}, "w"), flush=True)
time.sleep(600)
"""
"""What hears no request to end, and says in a file when it no longer does."""


def python(code, timeout_s=30.0):
    """An agent that runs this."""
    return Agent([sys.executable, "-c", code], timeout_s)


async def test_it_finds_url_and_model_where_agents_look(tmp_path, monkeypatch):
    """In its environment, where the user's own key is not to be seen, and in the place of {base_url} and {model}."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-real")
    told = tmp_path / "told"
    code = f"import os, sys, json; json.dump([dict(os.environ), sys.argv[1:]], open({str(told)!r}, 'w'))"
    end = await Agent([sys.executable, "-c", code, "--url={base_url}", "{model}"], 30).run(URL, "a/b")
    environment, arguments = json.loads(told.read_text())
    assert end.well
    assert arguments == [f"--url={URL}", "a/b"]
    assert environment_of(URL, "a/b").items() <= environment.items()
    assert (environment["OPENAI_BASE_URL"], environment["OPENAI_MODEL"]) == (URL, "a/b")
    assert "sk-real" not in environment.values()


async def test_no_proxy_stands_between_it_and_us(monkeypatch):
    monkeypatch.setenv("NO_PROXY", "example.org")

    assert environment_of(URL, "m")["no_proxy"] == "127.0.0.1,localhost,example.org"


async def test_its_exit_code_is_kept():
    end = await python("raise SystemExit(7)").run(URL, "m")

    assert (end.how, end.exit_code, end.well) == ("exited", 7, False)


async def test_a_command_that_is_not_there_is_an_error_that_names_it():
    with pytest.raises(ConfigError, match="cannot run 'no-such-agent': No such file"):
        await Agent(["no-such-agent"], 30).run(URL, "m")


async def test_one_that_takes_too_long_is_ended():
    end = await python("import time; time.sleep(600)", 0.2).run(URL, "m")

    assert (end.how, end.well) == ("timed_out", False)


async def test_one_that_is_ended_is_ended_with_all_that_it_has_started(tmp_path):
    """It hears nothing, and neither does its child."""
    begun = tmp_path / "begun"
    child = f"subprocess.Popen([sys.executable, '-c', {DEAF.format(str(begun))!r}])"
    end = await _interrupted(python(f"import subprocess, sys, time; {child}; time.sleep(600)"), begun)
    pid = int(begun.read_text())

    assert (end.how, end.well) == ("interrupted", False)
    await until(lambda: not _lives(pid))


async def test_one_that_hears_no_request_to_end_is_killed(tmp_path, monkeypatch):
    monkeypatch.setattr("gateway.doctor.agent.PATIENCE_S", 0.1)
    begun = tmp_path / "begun"
    end = await _interrupted(python(DEAF.format(str(begun))), begun)

    assert (end.how, end.exit_code) == ("interrupted", -signal.SIGKILL)


async def _interrupted(agent, begun):
    """How an agent ends that is interrupted once it has begun."""
    running = asyncio.ensure_future(agent.run(URL, "m"))
    await until(lambda: begun.exists() and begun.read_text() != "")
    os.kill(os.getpid(), signal.SIGINT)
    return await running


def _lives(pid):
    """Whether a process runs; one that is dead and not yet asked about does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
