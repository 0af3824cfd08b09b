"""docs/client.md: what stands there runs, as it stands there but for the address."""

import re
from pathlib import Path
from typing import Any

import pytest

from gateway import client
from gateway.client import GatewayClient
from tests.client.test_plugin import run
from tests.client.test_thread import Plain
from tests.readme.documents import ROOT, texts_of

PAGE = ROOT / "docs" / "client.md"
DOCS = PAGE.read_text()
BLOCKS = texts_of(PAGE, "python")
PROGRAMS = [block for block in BLOCKS if "def test_" not in block]
(TEST,) = [block for block in BLOCKS if "def test_" in block]
IN_PROCESS = [block for block in PROGRAMS if "simulated_engine" not in block]
STARTING = [block for block in PROGRAMS if "simulated_engine" in block]


def test_each_block_is_one_of_these() -> None:
    """None is forgotten."""
    assert (len(IN_PROCESS), len(STARTING), len(BLOCKS)) == (3, 2, 6)


def test_a_trainers_blocks_run(served: GatewayClient, capsys: pytest.CaptureFixture[str]) -> None:
    """One after the other; they print what was rewarded."""
    names: dict[str, Any] = {"load_weights": lambda: None}
    for block in IN_PROCESS:
        exec(block.replace("http://127.0.0.1:8080", served.url), names)
    said = capsys.readouterr().out

    assert re.search(r"^task-17 1\.0 \d+ \d+$", said, re.MULTILINE)
    assert "[0.0]\n" in said
    assert served.policy()["version"] == "step-4"


@pytest.mark.process
@pytest.mark.parametrize("block", STARTING)
def test_blocks_that_start_something_run(block: str) -> None:
    """With a renderer where one is asked for."""
    exec(block, {"make_renderer": Plain})


@pytest.mark.process
def test_the_test_of_an_agent_passes(tmp_path: Path) -> None:
    """With nothing but the plugin."""
    assert "1 passed" in run(tmp_path, TEST)


def test_every_name_of_the_package_is_told_of() -> None:
    """Those of the methods, too; sessions and pauses are had, not made."""
    told = set(re.findall(r"[\w-]+", DOCS))
    methods = {name for kind in (client.GatewayClient, client.Session) for name in vars(kind) if name[0] != "_"}
    inner = {"call", "take", "url", "close"}

    assert methods - told - inner == set()
    assert set(client.__all__) - told == {"AsyncSession", "PackageMissing", "Pause", "Session"}
    assert dir(client) == sorted(client.__all__)


def test_a_name_that_is_not_there_is_an_error() -> None:
    """As of any module."""
    with pytest.raises(AttributeError, match="no_such"):
        _ = client.no_such
    with pytest.raises(ImportError, match="no_such"):
        exec("from gateway.client import no_such")
