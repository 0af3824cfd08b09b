"""The log: JSON lines that hold up nobody, say nothing of what was said, and are there at the end."""

import asyncio
import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import orjson
import pytest
from aiohttp import ClientSession
from structlog.testing import capture_logs

from gateway.edge.log import Lines, where
from gateway.render.demo import MODEL_NAME
from tests.edge.house import House, OpenHouse, until
from tests.edge.marks import retry, turn_id
from tests.edge.process import END_S, START_S, engine, flags, gateway

TURNS = 3
IN_PROCESS = """
import asyncio, sys
import structlog
from aiohttp.test_utils import TestClient, TestServer
from gateway.app import create_app
from gateway.settings import Settings
from gateway.sim import create_sim

class Store:
    async def put(self, session_id, turns):
        raise OSError("full")

async def main():
    async with TestServer(create_sim()) as sim:
        keys = {"engine_key": "hush-engine", "agent_key": "hush-agent"}
        settings = Settings(model="rollout-gateway/demo", engine=(str(sim.make_url("")),), **keys)
        async with TestClient(TestServer(create_app(settings, store=Store()))) as client:
            asked = {"messages": [{"role": "user", "content": "swordfish"}]}
            headers = {"Authorization": "Bearer hush-agent"}
            answer = await client.post("/sessions/s/v1/chat/completions", json=asked, headers=headers)
            assert answer.status == 500

if sys.argv[1] == "own":
    structlog.configure()
asyncio.run(main())
"""
"""The gateway as a library, with a store that raises."""


@pytest.mark.process
@pytest.mark.parametrize("configured", ["ours", "own"])
async def test_in_a_process_of_others_a_failure_says_where_and_not_what(configured: str) -> None:
    """Lines are JSON on standard error, unless structlog was set up, here as it comes: it would show all locals."""
    child = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", IN_PROCESS, configured), stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    output, errors = await asyncio.wait_for(child.communicate(), START_S)

    assert child.returncode == 0, errors
    assert b"OSError: full" in output + errors
    assert not [secret for secret in (b"swordfish", b"hush") if secret in output + errors]
    if configured == "ours":
        assert output == b""
        lines = [orjson.loads(line) for line in errors.splitlines()]
        assert [line["event"] for line in lines if line["level"] == "error"] == ["unexpected failure"]


@contextmanager
def descriptor_that(how: str) -> Iterator[int]:
    """A standard error that nobody reads: its pipe is full, or has no other end."""
    reading, writing = os.pipe()
    if how == "is closed":
        os.close(reading)
    else:
        os.set_blocking(writing, False)
        try:
            while True:
                os.write(writing, b"x" * 4096)
        except BlockingIOError:
            os.set_blocking(writing, True)
    try:
        yield writing
    finally:
        if how != "is closed":
            os.close(reading)
            time.sleep(0.05)  # a thread may hang in a write, and must not come upon another file of that number
        os.close(writing)


@pytest.mark.process
@pytest.mark.parametrize("how", ["is closed", "is full"])
async def test_a_log_that_cannot_be_written_neither_fails_nor_blocks_a_call(tmp_path: Path, how: str) -> None:
    """Nor the end of the process; and where that can be known, the lost lines are counted."""
    with descriptor_that(how) as stderr:
        async with (
            engine() as (url, _),
            gateway(tmp_path, *flags(model=MODEL_NAME, engine=url, port=0), stderr=stderr) as process,
            ClientSession() as http,
        ):
            await process.ready()
            session = f"{process.url}/sessions/s"
            asked = {"messages": [{"role": "user", "content": "Hello?"}]}
            for _ in range(TURNS):
                async with asyncio.timeout(END_S), http.post(f"{session}/v1/chat/completions", json=asked) as answer:
                    assert answer.status == 200
            async with http.get(f"{session}/turns") as answer:
                told = [(turn["status"], turn["delivered"]) for turn in (await answer.json())["data"]]
            assert told == [("complete", True)] * TURNS
            async with http.get(f"{process.url}/metrics") as answer:
                dropped = [line for line in (await answer.text()).splitlines() if line.startswith("gateway_log_lines")]
            assert (float(dropped[0].split()[1]) >= TURNS) == (how == "is closed")
            process.child.send_signal(signal.SIGTERM)
            assert await process.ended(END_S) == 0


async def test_lines_come_out_promptly_in_order_and_at_the_end() -> None:
    """And whole, however long they are."""
    reading, writing = os.pipe()
    lines, read = Lines(writing), os.fdopen(reading, "rb")
    try:
        lines.write("first\n")
        assert await asyncio.wait_for(asyncio.to_thread(read.readline), 1) == b"first\n"

        said = [f"{number} {'é' * 50_000}\n" for number in range(3)]
        for line in said:
            lines.write(line)
        reading_all = asyncio.to_thread(lambda: [read.readline() for _ in said])
        got, _ = await asyncio.wait_for(asyncio.gather(reading_all, asyncio.to_thread(lines.close)), 2)
        assert [line.decode() for line in got] == said
        assert lines.dropped == 0
    finally:
        os.close(writing)
        read.close()


async def test_lines_beyond_the_bound_are_dropped_and_counted() -> None:
    """Those that were taken come out when somebody reads again."""
    with descriptor_that("is full") as writing:
        lines = Lines(writing, most=2)
        lines.write("0\n")
        await until(lambda: not lines._queue.qsize())  # the thread has it in hand
        for number in range(1, 6):
            lines.write(f"{number}\n")
        assert lines.dropped == 3
        lines.close()  # nobody reads, and yet this ends


async def test_without_a_standard_error_lines_are_counted() -> None:
    """A process may have been started without."""
    lines = Lines(None)
    lines.write("nowhere\n")

    await until(lambda: lines.dropped == 1)
    lines.close()


async def test_a_fork_has_a_log_of_its_own() -> None:
    """Threads do not live on in it."""
    reading, writing = os.pipe()
    lines, read = Lines(writing), os.fdopen(reading, "rb")
    try:
        lines.close()
        lines.start()
        lines.write("again\n")
        assert await asyncio.wait_for(asyncio.to_thread(read.readline), 1) == b"again\n"
        lines.close()
    finally:
        os.close(writing)
        read.close()


async def test_an_answer_that_was_there_already_has_a_line_too(house: House) -> None:
    """With the ids of the turns, and that of its own request."""
    first = await house.ask("s", n=2)

    with capture_logs() as lines:
        await house.ask("s", n=2, headers={**retry(), "X-Request-Id": "again"})

    ids = turn_id(first).split(",")
    replay = {"event": "replay", "session_id": "s", "request_id": "again", "turn_ids": ids, "log_level": "info"}
    assert lines == [replay]


def test_the_words_of_an_exception_stay_with_it() -> None:
    """A driver may repeat in them what it was given; its kind, its cause and where it was raised are enough."""
    secret = "sword" + "fish"
    try:
        try:
            raise KeyError(secret)
        except KeyError as error:
            raise RuntimeError(secret) from error
    except RuntimeError:
        told = str(where()["traceback"])

    assert secret not in told
    assert told.index("KeyError") < told.index("RuntimeError")
    assert told.endswith("RuntimeError")


async def test_a_failure_that_is_not_the_callers_has_a_line(open_house: OpenHouse) -> None:
    """Also where its client still waits and is told; what the caller did wrong has none."""
    house = await open_house(engine=("http://127.0.0.1:1",))
    with capture_logs() as lines:
        answer = await house.ask("s", headers={"X-Request-Id": "mine"})
        await house.ask("s", messages=[])

    assert answer.status == 503
    away, line = lines
    assert (away["event"], "exception" in line) == ("no engine answers", False)
    assert (line["event"], line["code"], line["request_id"]) == ("failed", "engine_unavailable", "mine")


def test_a_slow_reader_of_a_pipe_that_does_not_wait_gets_every_line() -> None:
    """Though the descriptor was made non-blocking by whoever shares it, and the lines are longer than the pipe."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    lines = Lines(writer)
    written = [f"{number} {'x' * 5000}\n" for number in range(60)]
    for line in written:
        lines.write(line)
    got = b""
    while len(got) < sum(map(len, written)):
        got += os.read(reader, 4096)
    lines.close()
    os.close(reader)
    os.close(writer)

    assert got.decode() == "".join(written)
    assert lines.dropped == 0
