"""`gateway doctor` as a process: its exit codes, a clean standard output, and the commands of its document."""

import asyncio
import json
import re
import shlex
import signal
import sys

import pytest
from jsonschema import Draft202012Validator

from tests.doctor.conftest import AGENTS, SCHEMA, until
from tests.readme.documents import ROOT, texts_of
from tests.surroundings import surroundings

pytestmark = pytest.mark.process

PAGE = ROOT / "docs" / "doctor.md"
DOCUMENT = PAGE.read_text()
LIMIT_S = 180


async def start(*words, **more):
    """The command, begun."""
    environment = surroundings(PYTHONPATH=str(ROOT), COLUMNS="200", NO_COLOR="1") | more
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "gateway", "doctor", *words),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=environment,
        cwd=ROOT,
    )


async def run(*words, **more):
    """Exit status, standard output, standard error."""
    process = await start(*words, **more)
    out, err = await asyncio.wait_for(process.communicate(), LIMIT_S)
    return process.returncode, out.decode(), err.decode()


def agent(habit):
    """The words of a harness with a habit."""
    return "--", sys.executable, str(AGENTS), habit


async def test_json_is_all_that_is_on_standard_output():
    """What the agent prints is on standard error; there is not a word of the gateway's own."""
    status, out, err = await run("--json", *agent("asks_once"))
    told = json.loads(out)
    Draft202012Validator(SCHEMA).validate(told)

    assert (status, told["verdict"]) == (3, "one_turn")
    assert "All is well" in err
    assert '"event"' not in err


async def test_the_verdict_is_the_last_line_and_the_exit_code():
    status, out, _ = await run(*agent("changes_tools"))

    assert status == 1
    assert "tools_changed" in out
    assert out.rstrip().splitlines()[-1].startswith("breaks its prefix once")


async def test_a_report_is_utf_8_whatever_the_locale():
    """A table as well as JSON: excerpts of what was said have signs that others do not."""
    for words in ((), ("--json",)):
        status, out, err = await run(*words, *agent("rewrites_user"), PYTHONIOENCODING="latin-1")

        assert status == 1, err
        assert "be brief" in out
        assert words or "“" in out


async def test_what_cannot_be_run_is_one_line_and_exit_code_2():
    """A command that is not there, half of a real engine, an engine that is not there, no command."""
    for words, said in (
        (("--", "no-such-agent"), "cannot run 'no-such-agent'"),
        (("--engine", "http://127.0.0.1:9", "--", "true"), "--engine and --model belong together"),
        (
            ("--engine", "http://127.0.0.1:9", "--model", "rollout-gateway/demo", "--", "true"),
            "does not say what it serves",
        ),
    ):
        status, out, err = await run(*words)

        assert (status, out) == (2, "")
        assert err.startswith("gateway doctor: ")
        assert said in err.splitlines()[0]
    assert (await run())[0] == 2


async def test_an_interrupt_ends_the_agent_first_and_then_reports(tmp_path):
    """The agent, which would have gone on, is gone when the report is there."""
    lingers = tmp_path / "lingers"
    process = await start("--json", *agent("lingers"), LINGERS=str(lingers))
    await until(lingers.exists)
    process.send_signal(signal.SIGINT)
    out, _ = await asyncio.wait_for(process.communicate(), LIMIT_S)
    told = json.loads(out)

    assert (process.returncode, told["agent"]["ended"]) == (4, "interrupted")
    assert told["turns"] > 1


async def test_a_real_engine_is_examined_against_as_well():
    """Another process that speaks vLLM's protocol; the model that it serves is the one that the agent asks for."""
    sim = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "gateway", "sim", "--port", "0", "--api-key", "secret"),
        stdout=asyncio.subprocess.PIPE,
        cwd=ROOT,
        env=surroundings(PYTHONPATH=str(ROOT)),
    )
    assert sim.stdout is not None
    url = json.loads(await sim.stdout.readline())["url"]
    named = ("--engine", url, "--engine-key", "secret", "--model", "rollout-gateway/demo")
    status, out, _ = await run("--json", *named, *agent("drops_reasoning"))
    sim.terminate()
    await sim.communicate()
    told = json.loads(out)

    assert (status, told["verdict"], told["simulated"], told["tools"]) == (0, "keeps", False, None)
    assert told["model"] == "rollout-gateway/demo"


async def test_the_commands_of_the_document_do_what_it_says(tmp_path):
    """Its agent, as it stands there; then its commands, with the exit codes that it names."""
    (code,) = texts_of(PAGE, "python")
    (tmp_path / "agent.py").write_text(code)
    lines = [line for block in texts_of(PAGE, "bash") for line in block.splitlines()]
    assert len(lines) == 3
    for line in lines:
        command, _, expected = line.partition("#")
        words = shlex.split(command.replace("python agent.py", f"{sys.executable} {tmp_path}/agent.py"))
        assert words[:2] == ["gateway", "doctor"]
        status, out, err = await run(*words[2:])

        assert f"exit code {status}" in expected, (out, err)
        last = re.sub(r"\d+", "N", out.strip().splitlines()[-1])
        assert "--brief" not in words or "--json" in words or f"    {last}\n" in re.sub(r"\d+", "N", DOCUMENT)


def test_the_document_names_every_verdict_reason_and_variable():
    """And every flag."""
    from gateway.core.reason import Reason
    from gateway.doctor.agent import environment_of
    from gateway.doctor.verdict import EXIT_CODES

    names = [*EXIT_CODES, *(reason for reason in Reason if reason != "multimodal"), *environment_of("url", "model")]
    assert [name for name in names if f"`{name}`" not in DOCUMENT] == []
