"""`gateway serve` as a process: its one line, its end, its refusals, and what it keeps to itself."""

import asyncio
import os
import shutil
import signal
import socket
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

import orjson
import pytest
from aiohttp import ClientError, ClientSession

from gateway import __version__
from gateway.render.demo import FOLDER
from gateway.render.demo import MODEL_NAME as DEMO
from gateway.sim import FAULTS, JOURNAL
from tests.edge.house import MODEL_NAME, Words, until
from tests.edge.process import END_S, START_S, engine, flags, gateway

pytestmark = pytest.mark.process


def chat(words: Words, prompt: str, said: str) -> bytes:
    """A request."""
    body = {"messages": [{"role": "user", "content": prompt}], "vllm_xargs": {"script": words.said(said)}}
    return orjson.dumps(body)


def standard(pid: int) -> list[str]:
    """What a process has as its standard descriptors."""
    return [str(Path(f"/proc/{pid}/fd/{number}").readlink()) for number in range(3)]


async def test_it_says_when_it_is_ready_serves_and_ends_on_sigterm_in_the_middle_of_a_turn(
    tmp_path: Path, tokenizer_folder: str, words: Words
) -> None:
    """One JSON line on standard output; a client that hangs up stops the engine; SIGTERM is its end, promptly.

    The turn would not have ended by itself, and the exit status says so.

    Neither keys nor what was said are in the log, whose lines are JSON.
    """
    keys = {"agent_key": "agents-hush", "admin_key": "admins-hush", "engine_key": "engines-hush"}
    settings = {
        "model": tokenizer_folder,
        "model_name": MODEL_NAME,
        "port": 0,
        "drain_timeout_s": 0.2,
        "resume_attempts": 0,
        **keys,
    }
    headers = {"Authorization": "Bearer agents-hush"}
    async with (
        engine() as (url, sim),
        gateway(tmp_path, *flags(**settings, engine=url)) as process,
        ClientSession(headers=headers) as http,
    ):
        announced = await process.ready()
        assert announced.keys() == {"event", "url", "pid", "version"}
        assert announced["event"] == "ready"
        assert announced["pid"] == process.child.pid
        assert announced["version"] == __version__
        assert not announced["url"].endswith((":0", ":8080"))
        completions = f"{process.url}/sessions/s/v1/chat/completions"

        async with http.post(completions, data=chat(words, "Is it swordfish?", "It is herring.")) as answer:
            assert answer.status == 200
        async with http.post(completions, data=b'{"messages": "swordfish"}') as answer:
            assert answer.status == 400
        async with http.get(f"{process.url}/metrics", headers={"Authorization": "Bearer wrong-hush"}) as answer:
            assert answer.status == 401
        sim[FAULTS].inject("error_event", after=2)
        async with http.post(completions, data=chat(words, "swordfish", "herring")) as answer:
            assert answer.status == 503

        sim[FAULTS].inject("stall", after=2)
        leaving = asyncio.ensure_future(http.post(completions, data=chat(words, "swordfish", "herring")))
        await until(lambda: sim[JOURNAL].running)
        leaving.cancel()
        await asyncio.gather(leaving, return_exceptions=True)
        await until(lambda: not sim[JOURNAL].running)

        sim[FAULTS].inject("stall", after=2)
        staying = asyncio.ensure_future(http.post(completions, data=chat(words, "swordfish", "herring")))
        await until(lambda: sim[JOURNAL].running)
        process.child.send_signal(signal.SIGTERM)
        try:
            assert await process.ended(END_S) == 3
            assert await process.line() == b""
            await until(lambda: not sim[JOURNAL].running)
        finally:
            staying.cancel()
            await asyncio.gather(staying, return_exceptions=True)
            errors = process.errors
            assert errors.count('"event": "turn"') + errors.count('"event":"turn"') >= 2
            assert not [secret for secret in ("hush", "swordfish", "herring") if secret in errors]
            assert all(isinstance(orjson.loads(line), dict) for line in errors.splitlines())


async def test_it_takes_its_settings_from_the_environment_and_ends_on_sigterm(tmp_path: Path) -> None:
    """A renderer that never bridges serves, where that is accepted."""
    folder = shutil.copytree(FOLDER, tmp_path / "model")
    config = orjson.loads((folder / "tokenizer_config.json").read_bytes())
    (folder / "tokenizer_config.json").write_bytes(orjson.dumps(config | {"model_name": "nobody"}))
    env = {
        "MODEL": str(folder),
        "MODEL_NAME": "nobody/nothing-7B",
        "RENDERER_NAME": "default",
        "PORT": "0",
        "HOST": "localhost",
    }
    async with engine() as (url, _), ClientSession() as http:
        variables = {f"GATEWAY_{name}": value for name, value in {**env, "ENGINE": url}.items()}
        async with gateway(tmp_path, "serve", "--allow-bridgeless", env=variables) as process:
            await process.ready()
            async with http.get(f"{process.url}/ready") as answer:
                assert answer.status == 200
            process.child.send_signal(signal.SIGTERM)

            assert await process.ended(END_S) == 0
            assert await process.line() == b""


async def test_a_request_that_is_no_http_or_half_of_it_does_no_harm(tmp_path: Path) -> None:
    """It brings no secret into the log, whose lines are JSON still, and does not hold up the end."""
    settings = {"model": DEMO, "port": 0, "agent_key": "agents-hush"}
    head = b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\n"
    ill = [
        head + b"Authorization: Bearer agents-hush\x00\r\n\r\n",
        head + b"Transfer-Encoding: chunked\r\nAuthorization: Bearer agents-hush\r\n\r\nswordfish\r\n",
        b"Authorization: Bearer agents-hush\r\n\r\n",
    ]
    async with gateway(tmp_path, *flags(**settings)) as process:
        address = urlsplit((await process.ready())["url"])
        for request in ill:
            reader, writer = await asyncio.open_connection(address.hostname, address.port)
            writer.write(request)
            assert b" 400 " in await asyncio.wait_for(reader.readline(), 5)
            writer.close()
            await writer.wait_closed()
        _, half = await asyncio.open_connection(address.hostname, address.port)
        half.write(head + b"Authorization: Bearer agents-hush\r\nContent-Length: 1000\r\n\r\n{")
        await half.drain()
        await asyncio.sleep(0.2)
        process.child.send_signal(signal.SIGTERM)
        assert await process.ended(END_S) == 0
        half.close()

        assert not [secret for secret in ("hush", "swordfish") if secret in process.errors]
        assert all(isinstance(orjson.loads(line), dict) for line in process.errors.splitlines())


@pytest.mark.parametrize("name", ["serve", "sim"])
async def test_standard_output_is_the_one_line_whatever_happens(tmp_path: Path, name: str) -> None:
    """What is logged, of calls good and ill, is on standard error."""
    async with engine() as (url, _), ClientSession() as http:
        args = flags(model=DEMO, port=0, engine=url) if name == "serve" else ["sim", "--port", "0"]
        async with gateway(tmp_path, *args) as process:
            await process.ready()
            path = "/v1/chat/completions" if name == "serve" else "/inference/v1/generate"
            for body in (b"{", b'{"messages": [{"role": "user", "content": "Hi."}], "max_tokens": 3}'):
                async with http.post(f"{process.url}{path}", data=body) as answer:
                    await answer.read()
            process.child.send_signal(signal.SIGTERM)
            assert process.child.stdout is not None
            assert await process.child.stdout.read() == b""
            assert await process.ended() == 0


@pytest.mark.parametrize("name", ["serve", "sim"])
async def test_a_reader_of_standard_output_that_has_gone_does_no_harm(tmp_path: Path, name: str) -> None:
    """A launcher that only waits for the port; the exit status stays what it is."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    reads, writes = os.pipe()
    os.close(reads)
    args = flags(model=DEMO, port=port) if name == "serve" else ["sim", "--port", str(port)]
    async with gateway(tmp_path, *args, stdout=writes) as process, ClientSession() as http:
        os.close(writes)

        async def lives() -> bool:
            with suppress(ClientError):
                async with http.get(f"http://127.0.0.1:{port}/health") as answer:
                    return answer.status == 200
            return False

        await until(lives, within_s=START_S)
        assert "nobody reads standard output" in process.errors
        process.child.send_signal(signal.SIGTERM)
        assert await process.ended() == 0


@pytest.mark.parametrize("closed", ["<&- >&- 2>&-", "<&-", "2>&-"])
async def test_a_server_whose_standard_descriptors_were_closed_serves(tmp_path: Path, closed: str) -> None:
    """As some supervisors start it: they are nowhere, and no socket takes their numbers."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    program = f'exec "$0" -m gateway sim --port {port} {closed}'
    child = await asyncio.create_subprocess_exec("sh", "-c", program, sys.executable, cwd=tmp_path)

    async def lives() -> bool:
        with suppress(ClientError):
            async with http.get(f"http://127.0.0.1:{port}/health") as answer:
                return answer.status == 200
        return child.returncode is not None

    try:
        async with ClientSession() as http:
            await until(lives, within_s=START_S)
        assert child.returncode is None
        assert not [kept for kept in standard(child.pid) if kept.startswith(("socket:", "anon_inode:"))]
        child.terminate()
        assert await asyncio.wait_for(child.wait(), START_S) == 0
    finally:
        with suppress(ProcessLookupError):
            child.kill()
        await child.wait()


async def test_a_sim_whose_port_is_taken_is_exit_2_and_one_line(tmp_path: Path) -> None:
    """Which names the port."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        status, lines = await refused(tmp_path, "sim", "--port", str(port))

    assert (status, len(lines)) == (2, 1), lines
    assert lines[0].startswith(f"gateway sim: --host 127.0.0.1 --port {port}: ")


async def refused(tmp_path: Path, *args: str, env: Mapping[str, str] | None = None) -> tuple[int, list[str]]:
    """Exit status and lines on standard error of a `gateway` that should not start."""
    async with gateway(tmp_path, *args, env=env) as process:
        assert await process.line() == b""
        return await process.ended(), process.errors.splitlines()


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["serve"], ["--model"]),
        (flags(model="m", port="many"), ["--port", "integer"]),
        (flags(model="m", host="0.0.0.0"), ["0.0.0.0", "--admin-key", "--insecure"]),
    ],
)
async def test_an_ill_flag_is_exit_2_and_one_line(tmp_path: Path, args: list[str], says: list[str]) -> None:
    """Which names the setting and the remedy."""
    status, lines = await refused(tmp_path, *args)

    assert status == 2
    assert len(lines) == 1, lines
    assert all(word in lines[0] for word in says), lines


async def test_an_unknown_flag_is_exit_2(tmp_path: Path) -> None:
    """And is named, with what is nearest to it."""
    status, lines = await refused(tmp_path, "serve", "--prot", "1")

    assert status == 2
    assert all(flag in "".join(lines) for flag in ("--prot", "--port"))


async def test_an_unknown_variable_is_exit_2_and_one_line(tmp_path: Path) -> None:
    """Likewise."""
    status, lines = await refused(tmp_path, *flags(model=DEMO, port=0), env={"GATEWAY_PROT": "1"})

    assert (status, lines) == (2, ["gateway: GATEWAY_PROT: there is no such setting; is GATEWAY_PORT meant?"])


async def test_what_cannot_be_loaded_or_taken_is_exit_2_and_one_line(tmp_path: Path) -> None:
    """A folder that is not there, a model that the hub does not have, a port that is taken."""
    good = {"model": DEMO, "port": 0}
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        cases = [
            (flags(model=str(tmp_path / "nowhere")), ["--model", "nowhere"]),
            (flags(model="nobody/nothing-7B"), ["--model", "nobody/nothing-7B"]),
            (flags(**good | {"port": port}), ["--port", str(port)]),
        ]
        outcomes = await asyncio.gather(*(refused(tmp_path, *args) for args, _ in cases))

    for (args, says), (status, lines) in zip(cases, outcomes, strict=True):
        told = [line for line in lines if not line.startswith("{")]  # what is not the log
        assert (status, len(told)) == (2, 1), (args, lines)
        assert all(word in told[0] for word in says), told


async def test_a_server_for_renders_that_is_not_there_is_waited_for_and_told_of_once(tmp_path: Path) -> None:
    """And not at each try to reach it."""
    args = flags(model=DEMO, port=0, renderer="remote", render_url="http://127.0.0.1:1")
    async with gateway(tmp_path, *args) as process:
        assert await process.ended(within_s=90) == 2
        assert await process.line() == b""
        waits, told = process.errors.splitlines()

    assert "is waited for" in waits
    assert "http://127.0.0.1:1" in told
