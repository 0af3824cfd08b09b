"""`gateway config`: what is in effect, and who said so."""

from pathlib import Path

import orjson
import pytest

from gateway.settings import Settings
from tests.edge.process import Process, gateway

pytestmark = pytest.mark.process


async def printed(process: Process) -> str:
    """All of standard output, of a process that ends well."""
    assert process.child.stdout is not None
    text = (await process.child.stdout.read()).decode()
    assert await process.ended() == 0, process.errors
    assert process.errors == ""
    return text


async def test_it_prints_what_is_in_effect_with_its_source_and_no_secret(tmp_path: Path) -> None:
    """From a flag, a variable, a file of a key, the file of settings; and what nobody said."""
    key, file = tmp_path / "key", tmp_path / "gateway.toml"
    key.write_text("hush-key\n")
    file.write_text('model = "m"\nport = 1\nqueue_turns = 7\nagent_key = "hush-agent"\n')
    args = ["--port", "3", "--admin-key-file", str(key), "--no-insecure"]
    env = {"GATEWAY_CONFIG": str(file), "GATEWAY_PORT": "2", "GATEWAY_ENGINE": "http://a:1,http://b:2"}
    async with gateway(tmp_path, "config", "--json", *args, env=env) as process:
        text = await printed(process)
    async with gateway(tmp_path, "config", *args, env=env) as process:
        table = await printed(process)

    shown = orjson.loads(text)
    assert list(shown) == list(Settings.model_fields)
    assert {name: tuple(one.values()) for name, one in shown.items() if one["source"] != "default"} == {
        "model": ("m", f"{file}:model"),
        "port": (3, "--port"),
        "queue_turns": (7, f"{file}:queue_turns"),
        "engine": (["http://a:1", "http://b:2"], "GATEWAY_ENGINE"),
        "agent_key": ("set", f"{file}:agent_key"),
        "admin_key": ("set", f"--admin-key-file {key}"),
        "insecure": (False, "--insecure"),
    }
    assert shown["engine_key"] == {"value": "unset", "source": "default"}
    assert "hush" not in text + table
    assert [line.split()[0] for line in table.splitlines() if "--port" in line] == ["port"]
    assert all(name in table for name in Settings.model_fields)


@pytest.mark.parametrize(
    ("args", "says"),
    [
        ([], "--model: is required"),
        (["--model", "m", "--port", "x"], "--port: "),
        (["--model", "m", "--renderer-name", ""], "--renderer-name: "),
        (["--model", "m", "--config", "nowhere.yaml"], "--config nowhere.yaml: cannot be read: No such file"),
    ],
)
async def test_what_serve_would_refuse_it_refuses(tmp_path: Path, args: list[str], says: str) -> None:
    """Exit 2, one line, and nothing printed."""
    async with gateway(tmp_path, "config", *args) as process:
        assert await process.line() == b""
        assert await process.ended() == 2
        (line,) = process.errors.splitlines()
    assert says in line
