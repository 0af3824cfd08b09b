"""The README's commands do what it says, as they stand there but for ports and the model that needs a GPU."""

import json
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.request import urlopen

import pytest
from aiohttp.test_utils import unused_port

from tests.readme.documents import ROOT, started, texts_of

pytestmark = pytest.mark.process

README = ROOT / "README.md"
PYTHON = texts_of(README, "python")
COMMANDS = [line.strip() for text in texts_of(README, "bash") for line in text.splitlines()]


def command(start: str) -> str:
    """The README's one command that starts so."""
    (found,) = [line for line in COMMANDS if line.startswith(start)]
    return found


@pytest.fixture(scope="module")
def ports() -> dict[str, str]:
    """Free ports in the place of the README's."""
    return {port: str(unused_port()) for port in ("8000", "8001", "8080")}


def moved(text: str, ports: dict[str, str]) -> str:
    """`text` with the ports, the environment and the model of this run."""
    for port, free in ports.items():
        text = text.replace(port, free)
    programs = {"gateway": f"{sys.executable} -m gateway", "python": sys.executable}
    text = re.sub(r"\.venv/bin/(gateway|python)", lambda found: programs[found[1]], text)
    return text.replace("Qwen/Qwen3-8B", "rollout-gateway/demo")


@pytest.fixture(scope="module")
def gateway(ports: dict[str, str]) -> Iterator[str]:
    """The README's simulated engine and gateway; gives the gateway's address."""
    sim = started(moved(command(".venv/bin/gateway sim"), ports))
    serve = started(moved(command(".venv/bin/gateway serve"), ports).replace(" 2> ", f" --port {ports['8080']} 2> "))
    assert json.loads(printed(moved(command("curl --silent --fail"), ports)))["status"] == "ready"
    yield f"http://127.0.0.1:{ports['8080']}"
    for process in (serve, sim):
        process.terminate()
        process.wait(10)
        assert process.stdout is not None
        process.stdout.close()


def printed(line: str) -> str:
    """What a command of the README prints."""
    words = shlex.split(line)
    return subprocess.run(words, check=True, capture_output=True, text=True, timeout=60, cwd=ROOT).stdout


def test_every_make_target_is_there():
    """What the README tells to make can be made."""
    targets = {line.split()[1] for line in COMMANDS if line.startswith("make ")}
    makefile = (ROOT / "Makefile").read_text()

    assert {"demo", "check"} == targets
    assert all(re.search(rf"^{target}:", makefile, re.MULTILINE) for target in targets)


def test_an_agent_and_a_trainer_get_along_as_the_readme_says(gateway: str, ports: dict[str, str], tmp_path: Path):
    """The agent's lines make one row of bridged turns, and the trainer's command reads it."""
    subprocess.run([sys.executable, "-c", moved(PYTHON[0], ports)], check=True, timeout=60)
    agents = [line for line in COMMANDS if re.search(r"^curl .*/sessions", line)]
    read, finish, listing, delete = (moved(line, ports) for line in agents)
    (row,) = json.loads(printed(read))["data"]

    assert len(row["token_ids"]) == len(row["loss_mask"]) == len(row["logprobs"])
    assert ["rendered", "bridged", "bridged"] == [turn["how"] for turn in row["turns"]]
    assert sum(turn["completion_tokens"] for turn in row["turns"]) == sum(row["loss_mask"])

    finished = json.loads(printed(finish))
    assert (finished["status"], finished["reward"], finished["turns_in_flight"]) == ("finished", 1.0, 0)
    assert json.loads(printed(listing))["data"] == [finished]

    export, verify = (moved(command(f".venv/bin/gateway {words}"), ports) for words in ("sessions export", "verify"))
    printed(export.replace("rows.parquet", f"{tmp_path}/rows.parquet"))
    assert printed(verify.replace("rows.parquet", f"{tmp_path}/rows.parquet")).startswith("1 rows, 3 turns")

    assert printed(delete) == ""
    assert json.loads(printed(listing))["data"] == []


def test_an_agent_that_is_there_shows_its_row(gateway: str, ports: dict[str, str]):
    """The five minutes' agent, before the five minutes' gateway."""
    said = printed(moved(command(".venv/bin/python examples/"), ports))

    assert re.search(
        r"^one row: \d+ tokens, \d+ of them sampled and trained \(rendered(?: → bridged)+\)$", said, re.MULTILINE
    )


def test_a_trainer_starts_a_gateway_as_the_readme_says():
    """The lines run as they stand, and show one row."""
    done = subprocess.run(
        [sys.executable, "-c", PYTHON[1]], check=True, capture_output=True, text=True, timeout=120, cwd=ROOT
    )

    reward, ids, sampled = done.stdout.split()
    assert float(reward) == 1.0
    assert int(ids) > int(sampled) > 0


def test_a_trainer_holds_agents_and_names_its_weights_as_the_readme_says(gateway: str, ports: dict[str, str]):
    """Nothing is held afterwards, and the next turn shows the version."""
    pause, resume = (moved(line, ports) for line in COMMANDS if "/admin/" in line)

    assert json.loads(printed(pause))["paused"]["mode"] == "drain"
    assert json.loads(printed(resume))["paused"] is None
    with urlopen(f"{gateway}/admin/policy", timeout=10) as answer:
        assert json.load(answer)["version"] == "step-1"


def test_an_engine_is_added_and_listed_as_the_readme_says(gateway: str, ports: dict[str, str]):
    """Though it does not answer."""
    add, listing = (moved(command(f"gateway engines {word}"), ports) for word in ("add", "ls"))
    url = f"http://127.0.0.1:{ports['8001']}"

    assert subprocess.run([sys.executable, "-m", *shlex.split(add)], check=True, timeout=60).returncode == 0
    assert url in printed(f"{sys.executable} -m {listing}")
    printed(f"{sys.executable} -m {add.replace(' add ', ' rm ')}")
    assert url not in printed(f"{sys.executable} -m {listing}")


def test_the_operators_commands_work(gateway: str, ports: dict[str, str]):
    """The look beforehand finds nothing wrong, and `serve` takes the flags that stand there."""
    look = shlex.split(moved(command("gateway check"), ports))
    found = subprocess.run(
        [sys.executable, "-m", *look], capture_output=True, text=True, timeout=60, cwd=ROOT, check=False
    )
    assert found.returncode == 0, found.stdout

    serve = [sys.executable, "-m", *shlex.split(moved(command("gateway serve"), ports)), "--port", "0"]
    process = started(shlex.join(serve))
    process.terminate()
    process.communicate(timeout=10)
    assert process.returncode == 0


def test_a_gateway_in_a_process_of_ones_own_is_made_as_the_readme_says():
    """The lines run as they stand."""
    made: dict[str, object] = {}
    exec(PYTHON[2], made)

    assert "app" in made


def test_the_gateway_answers_on_the_paths_that_the_readme_names(gateway: str):
    """Health, readiness and metrics."""
    for path in ("/health", "/ready", "/metrics"):
        with urlopen(gateway + path, timeout=10) as answer:
            assert answer.status == 200
