"""`gateway demo` as a process that can reach nothing but this machine."""

import asyncio
import os
import re
import sys
from pathlib import Path

import pytest
from aiohttp.test_utils import TestServer

import gateway.sim
from gateway.sim import create_sim
from tests.surroundings import surroundings

pytestmark = pytest.mark.process

LIMIT_S = 120
FOLDER = Path(gateway.sim.__file__).parent / "tokenizer"
GUARD = (Path(__file__).parents[1] / "loopback.py").read_text()
MISSING = 'sys.modules.update(dict.fromkeys(os.environ.get("MISSING", "").split()))'
VERDICT = re.compile(
    r"(\d+) of (\d+) prompts extend what was sampled; re-tokenizing would have lost (\d+) of \d+ ids and moved (\d+)\."
)


@pytest.fixture
def demo(tmp_path):
    """Run the demo behind the guard: exit status, standard output, standard error."""
    (tmp_path / "sitecustomize.py").write_text(f"{GUARD}\n{MISSING}\n")

    async def run(*args, missing="", command=("-m", "gateway", "demo")):
        path = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")]), *sys.path])
        child = await asyncio.create_subprocess_exec(
            *(sys.executable, *command, *args),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=surroundings(PYTHONPATH=path, MISSING=missing, COLUMNS="300", NO_COLOR="1"),
        )
        try:
            out, err = await asyncio.wait_for(child.communicate(), LIMIT_S)
        finally:
            if child.returncode is None:
                child.kill()
        return child.returncode, out.decode(), err.decode()

    return run


def verdict(out):
    """Prompts bridged, turns, ids that re-tokenizing would have lost and moved."""
    found = VERDICT.search(out)
    assert found, out
    return [int(number) for number in found.groups()]


async def test_it_shows_bridged_turns_beside_what_retokenizing_would_have_got_wrong(demo):
    """Three sessions of six turns; it says why a prompt was rendered; nothing goes wrong on the way out."""
    status, out, err = await demo()
    bridged, turns, lost, moved = verdict(out)

    assert (status, err) == (0, "")
    assert turns == 18
    assert bridged == 14
    assert 0 < lost < moved
    assert out.count("render: first_turn") == 3
    assert out.count("render: history_edited") == 1
    assert len(re.findall(r"^(travel|kitchen|archive) +\d", out, re.MULTILINE)) == turns


async def test_an_engine_elsewhere_serves_as_well(demo):
    """Given its URL and the tokenizer of what it serves."""
    async with TestServer(
        create_sim(model="theirs", tokenizer=FOLDER, logprobs_mode="processed_logprobs"), host="127.0.0.1"
    ) as server:
        status, out, err = await demo("--engine", str(server.make_url("/")).rstrip("/"), "--model", str(FOLDER))

    assert (status, err) == (0, "")
    assert verdict(out)[0] > 0


async def test_what_is_missing_is_said_in_one_line(demo):
    """Without the extra or one of two flags: exit 2. An engine that is not there: exit 1."""
    flags = ["--engine", "http://127.0.0.1:9", "--model", str(FOLDER)]
    without_extra = await demo(missing="openai")
    without_model = await demo(*flags[:2])
    without_engine = await demo(*flags)

    named = ((without_extra, "rollout-gateway[demo]"), (without_model, "--model"))
    for (status, out, err), word in named:
        assert (status, out, len(err.splitlines())) == (2, "", 1), err
        assert word in err
    assert without_engine[0] == 1
    assert "no engine answers" in without_engine[1]


async def test_the_guard_would_have_noticed(demo):
    """The tests above prove something."""
    leave = "import socket; socket.create_connection(('192.0.2.1', 80), 1)"

    status, _, err = await demo(command=("-c", leave))
    assert (status, err) == (99, "left this machine for 192.0.2.1\n")
