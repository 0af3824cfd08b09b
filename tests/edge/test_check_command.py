"""`gateway check` as a process: its lines, its JSON, its exit status."""

import asyncio
import sys

import orjson
import pytest
from aiohttp.test_utils import unused_port

from gateway.render.demo import MODEL_NAME as DEMO
from tests.edge.house import MODEL_NAME, Json, serving
from tests.edge.test_check import engine
from tests.surroundings import surroundings

pytestmark = pytest.mark.process


async def checked(*args: str) -> tuple[int, str, str]:
    """Exit status, standard output and standard error of ``gateway check``."""
    child = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "gateway", "check", *args),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=surroundings(HF_HUB_OFFLINE="1", COLUMNS="40"),
    )
    out, errors = await asyncio.wait_for(child.communicate(), 60)
    assert child.returncode is not None
    return child.returncode, out.decode(), errors.decode()


async def test_the_report_is_one_line_a_finding_and_exit_0(tokenizer_folder: str) -> None:
    """However narrow the terminal; nothing failed."""
    flags = ["--model", tokenizer_folder, "--model-name", MODEL_NAME]
    async with serving(engine()) as server:
        status, out, errors = await checked(*flags, "--engine", str(server.make_url("")))
    lines = out.splitlines()
    assert (status, errors) == (0, "")
    assert len(lines) == 14
    assert all(line.startswith(("ok  ", "warn")) for line in lines)
    assert "\x1b" not in out


async def test_json_is_a_list_and_a_failure_is_exit_1() -> None:
    """One engine is up and one is down; the other's findings are there all the same."""
    flags = ["--model", DEMO, "--json"]
    down = f"http://127.0.0.1:{unused_port()}"
    async with serving(engine("0.20.2", model=DEMO)) as server:
        engines = ["--engine", str(server.make_url("")), "--engine", down]
        status, out, _ = await checked(*flags, *engines)
    report: list[Json] = orjson.loads(out)
    assert status == 1
    assert all(line.keys() == {"check", "status", "finding", "remedy"} for line in report)
    assert [line["check"] for line in report if line["status"] == "fail"] == [f"{down} reachable"]


async def test_without_an_engine_it_fails() -> None:
    """Though everything that is there is good."""
    status, out, _ = await checked("--model", DEMO)

    assert status == 1
    assert "--engine" in out


@pytest.mark.parametrize("args", [["--model", "m", "--port", "many"], ["--nonsense"]])
async def test_an_ill_flag_is_exit_2(args: list[str]) -> None:
    """As with `serve`; nothing is looked at."""
    status, out, errors = await checked(*args)

    assert (status, out) == (2, "")
    assert errors
