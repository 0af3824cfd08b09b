"""Gateways and engines as processes of one's own: how they begin, how they end, and what is said when that goes ill."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from pydantic import SecretStr

from gateway.client import GatewayClient, GatewayProcessError, launch, simulated_engine
from gateway.client.process import flags
from gateway.render.demo import MODEL_NAME
from tests.client.conftest import ask

PARENT = """
import sys
from gateway.client import launch
with launch(model="rollout-gateway/demo", engine=[sys.argv[1]]) as gateway:
    print(gateway.url, flush=True)
    sys.stdin.read()
"""
DOUBLE = """
import json, os, signal, sys, time
{before}
print("what went on", file=sys.stderr, flush=True)
print(json.dumps({{"event": "ready", "url": "http://127.0.0.1:9", "pid": os.getpid()}}), flush=True)
time.sleep(60)
"""


@pytest.fixture(scope="module")
def engine() -> Iterator[str]:
    """A simulated engine as a process."""
    with simulated_engine(ranks=2, split_rate=0.2, scale_out=True) as url:
        yield url


def doubled(folder: Path, monkeypatch: pytest.MonkeyPatch, before: str = "") -> None:
    """In place of a gateway, a program of this folder, where processes begin from now on."""
    package = folder / "gateway"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "__main__.py").write_text(DOUBLE.format(before=before))
    monkeypatch.chdir(folder)


def test_settings_become_flags() -> None:
    """Each kind as the command line has it; what is not said is not there."""
    said = {"model_name": "m", "engine": ["a", "b"], "insecure": True, "port": 0, "allow_bridgeless": False, "x": None}
    said["renderer_config"] = {"a": [1]}
    knobs = {"routed_experts": (2, 4), "scale_out": False, "sampling_mask": True}

    known = ["--model-name", "m", "--engine", "a", "--engine", "b", "--insecure", "--port", "0"]
    assert flags(said) == [*known, "--no-allow-bridgeless", "--renderer-config", '{"a": [1]}']
    assert flags(knobs, pairs=True) == ["--routed-experts", "2", "4", "--no-scale-out", "--sampling-mask"]


@pytest.mark.process
def test_a_launched_gateway_serves_and_ends_with_its_block(engine: str) -> None:
    """A turn, a row, and then nobody listens any more."""
    with launch(model=MODEL_NAME, engine=[engine], max_turns=1, noise_key=["cache_control", "extra"]) as gateway:
        session = gateway.session()
        ask(session)
        assert len(session.rows()) == 1
        assert len(gateway.engines()[0]["ranks"]) == 2
        assert session.show()["budget"]["max_turns"] == 1
    with pytest.raises(Exception, match="cannot be reached"), GatewayClient(gateway.url, patience_s=0) as late:
        late.policy()


@pytest.mark.process
def test_keys_go_to_gateway_and_client_and_to_nobody_who_lists_processes(engine: str) -> None:
    """They are in no command line, and may come from the environment."""
    environment = dict(os.environ, GATEWAY_AGENT_KEY="hush-agent")
    key = SecretStr("hush-admin")
    with launch(environment=environment, model=MODEL_NAME, engine=[engine], admin_key=key) as gateway:
        assert gateway.policy()["ordinal"] == 0
        assert gateway.session().openai().api_key == "hush-agent"
        shown = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    assert "gateway serve" in shown
    assert "hush-" not in shown


@pytest.mark.process
def test_its_client_has_the_keys_that_stand_in_files(engine: str, tmp_path: Path) -> None:
    """As the gateway has: in one of its own, by flag, and in the one of settings, by variable; a flag undoes a variable."""
    (tmp_path / "key").write_text("hush-admin\n")
    (tmp_path / "g.yaml").write_text("agent_key: hush-agent\n")
    environment = dict(os.environ, GATEWAY_CONFIG=str(tmp_path / "g.yaml"), GATEWAY_ENGINE_CONTROL="true")
    with launch(
        environment=environment,
        model=MODEL_NAME,
        engine=[engine],
        admin_key_file=tmp_path / "key",
        engine_control=False,
    ) as gateway:
        assert gateway.policy()["ordinal"] == 0
        assert gateway.session().openai().api_key == "hush-agent"


@pytest.mark.process
def test_a_setting_that_is_ill_is_said_as_the_gateway_says_it(engine: str) -> None:
    """With its exit code and its last words."""
    with (
        pytest.raises(GatewayProcessError, match="did not start") as caught,
        launch(model=MODEL_NAME, engine=[engine], max_turns="many"),
    ):
        pytest.fail("it serves")
    assert caught.value.exit_code == 2
    assert "--max-turns" in caught.value.last_lines[-1]
    assert caught.value.last_lines[-1] in str(caught.value)


@pytest.mark.process
def test_an_engine_that_does_not_start_says_why() -> None:
    """As a gateway does."""
    with (
        pytest.raises(GatewayProcessError, match=r"gateway sim did not start \(exit code 2\)"),
        simulated_engine(ranks=0),
    ):
        pytest.fail("it serves")


@pytest.mark.process
def test_its_log_goes_where_it_is_told_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """To a file by name, behind what stands there, or to one that is open."""
    doubled(tmp_path, monkeypatch)
    (tmp_path / "named.log").write_text("before\n")
    with (tmp_path / "open.log").open("wb") as opened:
        for log in (tmp_path / "named.log", opened):
            with pytest.raises(GatewayProcessError, match="signal 15"), launch(log=log):
                pass

    assert (tmp_path / "named.log").read_text() == "before\nwhat went on\n"
    assert (tmp_path / "open.log").read_text() == "what went on\n"


@pytest.mark.process
def test_it_ends_within_seconds_when_its_parent_is_killed(engine: str) -> None:
    """With a signal that leaves nobody a last word."""
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, engine], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert parent.stdin is not None
    assert parent.stdout is not None
    with parent:
        url = parent.stdout.readline().strip()
        with GatewayClient(url, patience_s=0) as gateway:
            assert gateway.ready()
            parent.kill()
            until_s = time.monotonic() + 5
            while time.monotonic() < until_s and _answers(gateway):
                time.sleep(0.05)
            assert not _answers(gateway)


def _answers(gateway: GatewayClient) -> bool:
    with suppress(Exception):
        gateway.policy()
        return True
    return False


@pytest.mark.process
def test_one_that_does_not_start_in_time_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it had said is told."""
    doubled(tmp_path, monkeypatch, before="print('still loading', file=sys.stderr, flush=True); time.sleep(60)")
    with pytest.raises(GatewayProcessError, match="did not start within 1 s") as caught, launch(start_timeout_s=1):
        pytest.fail("it serves")
    assert (caught.value.exit_code, caught.value.last_lines) == (None, ("still loading",))


@pytest.mark.process
def test_one_that_says_something_else_is_no_gateway(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is ended, too."""
    doubled(tmp_path, monkeypatch, before="print('hello', flush=True); time.sleep(60)")
    with pytest.raises(GatewayProcessError, match="in place of its ready line"), launch():
        pytest.fail("it serves")


@pytest.mark.process
def test_one_that_does_not_end_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a bound, and it is said."""
    doubled(tmp_path, monkeypatch, before="signal.signal(signal.SIGTERM, signal.SIG_IGN)")
    with (
        pytest.raises(GatewayProcessError, match=r"did not end within 0\.2 s, and was killed"),
        launch(end_timeout_s=0.2),
    ):
        pass


@pytest.mark.process
def test_one_that_ends_ill_says_how(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By its exit code, also where it ended on its own; a block that raises is heard first."""
    doubled(tmp_path, monkeypatch, before="signal.signal(signal.SIGTERM, lambda *_: sys.exit(3))")
    with pytest.raises(GatewayProcessError, match="did not end well") as caught, launch():
        pass
    assert (caught.value.exit_code, caught.value.last_lines) == (3, ("what went on",))

    with pytest.raises(ZeroDivisionError) as raised, launch():
        raise ZeroDivisionError
    assert "did not end well (exit code 3)" in raised.value.__notes__[0]


@pytest.mark.process
def test_one_that_is_killed_meanwhile_is_told_of(engine: str, tmp_path: Path) -> None:
    """By the signal."""
    with (
        pytest.raises(GatewayProcessError, match="ended before its block did") as caught,
        launch(model=MODEL_NAME, engine=[engine], log=tmp_path / "log"),
    ):
        (pid,) = [int(pid) for pid in _children() if "serve" in Path(f"/proc/{pid}/cmdline").read_text()]
        os.kill(pid, signal.SIGKILL)
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    assert caught.value.exit_code == -signal.SIGKILL


def _children() -> list[str]:
    tasks = Path("/proc/self/task").iterdir()
    return [pid for task in tasks for pid in (task / "children").read_text().split()]
