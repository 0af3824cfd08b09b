"""``gateway sim`` as a process."""

import asyncio
import signal
import sys

import orjson
import pytest
from aiohttp import ClientSession

from gateway import __version__

pytestmark = pytest.mark.process


async def spawn(*flags: str) -> asyncio.subprocess.Process:
    """The command, its output in pipes."""
    command = (sys.executable, "-m", "gateway", "sim", *flags)
    return await asyncio.create_subprocess_exec(*command, stdout=-1, stderr=-1)


async def test_it_says_where_it_listens_serves_and_ends_on_sigterm(tokenizer_folder):
    """One JSON line on standard output, then the API; a request under way does not hold it up."""
    flags = ("--port", "0", "--ranks", "2", "--model", tokenizer_folder, "--model-name", "m", "--token-delay-s", "0.01")
    process = await spawn(*flags)
    try:
        assert process.stdout is not None
        ready = orjson.loads(await process.stdout.readline())
        assert ready == {"event": "ready", "url": ready["url"], "pid": process.pid, "version": __version__}
        async with ClientSession(ready["url"]) as http:
            body = {"model": "m", "token_ids": [1], "sampling_params": {"max_tokens": 3}}
            async with http.post("/inference/v1/generate", json=body) as response:
                assert len((await response.json())["choices"][0]["token_ids"]) == 3
            body["sampling_params"] = {"ignore_eos": True}
            leaving = asyncio.ensure_future(http.post("/inference/v1/generate", json=body))
            await asyncio.sleep(0.1)
            leaving.cancel()  # not streamed: only a server that cancels its handlers notices
            await asyncio.sleep(0.2)
            async with http.get("/sim/journal") as response:
                assert [entry["disconnected"] for entry in await response.json()] == [False, True]
            process.send_signal(signal.SIGTERM)
            assert await asyncio.wait_for(process.wait(), 5) == 0
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def test_a_setting_that_cannot_be_is_one_line_and_exit_2():
    """On standard error; nothing is announced."""
    process = await spawn("--ranks", "0")
    out, err = await process.communicate()
    assert (process.returncode, out, err) == (2, b"", b"gateway sim: ranks must be 1 or more, not 0\n")
