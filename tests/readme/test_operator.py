"""The operator's pages: their commands run as they stand, but for ports; what they name is there."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from gateway import errors
from gateway.core.reason import Reason
from gateway.edge.metric_table import TABLE
from gateway.settings import Settings
from tests.readme.documents import ROOT, Reader, texts_of
from tests.surroundings import surroundings

DOCS = ROOT / "docs"
PAGES = ("fleet.md", "quickstart-operator.md", "troubleshooting.md")
SOURCES = "".join(path.read_text() for path in sorted((DOCS.parent / "gateway").rglob("*.py")))
OTHERS_FLAGS = {
    "--api-key",
    "--data-parallel-size",
    "--enable-prompt-tokens-details",
    "--enable-scale-out",
    "--generation-config",
    "--logprobs-mode",
    "--max-model-len",
    "--max-num-seqs",
    "--stream-interval",
}
"""Of `vllm serve`."""
COMMANDS_FLAGS = {"--back", "--key", "--out", "--gateway", "--ranks"}
"""Of `gateway engines`, `gateway sessions` and `gateway sim`."""
TOOLS_FLAGS = {"--json", "--retry", "--retry-connrefused", "--retry-delay", "--fail", "--request", "--build"}
"""Of curl and docker."""


def text_of(page: str) -> str:
    return (DOCS / page).read_text()


@pytest.mark.parametrize("page", PAGES)
def test_flags_are_those_of_somebody(page: str):
    """A setting of ours, or a flag that is known to be another program's."""
    ours = {f"--{name.replace('_', '-')}" for name in Settings.model_fields}
    named = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", text_of(page)))

    assert named <= ours | OTHERS_FLAGS | COMMANDS_FLAGS | TOOLS_FLAGS


@pytest.mark.parametrize("page", PAGES)
def test_metrics_are_those_of_the_table(page: str):
    """With the labels that the table gives them, and values that these have."""
    for name, labels in re.findall(r"`(gateway_(?!away)[a-z_]+)(?:\{([^}]*)\})?", text_of(page)):
        if name in _codes():
            continue
        for label, value in re.findall(r'([a-z_]+)="([^"]+)"', labels):
            assert value in (TABLE[name].labels[label] or [value]), (name, label, value)


def test_codes_and_reasons_are_those_of_the_gateway():
    """What the tables of the troubleshooting page begin their rows with."""
    page = text_of("troubleshooting.md")
    many = page.partition("| `reason` | usually | do |")[2].partition("\n\n")[0]
    reasons = set(re.findall(r"`([a-z]+_[a-z_]+)`", re.sub(r"(?m)^(\|[^|]*\|).*$", r"\1", many)))
    coded = page.partition("| `code` | whose | do |")[2].partition("\n\n")[0]
    codes = set(re.findall(r"`([a-z_]+)`", re.sub(r"(?m)^(\|[^|]*\|).*$", r"\1", coded)))

    assert reasons
    assert reasons <= {reason.value for reason in Reason}
    assert codes
    assert codes <= _codes()
    for code in re.findall(r"\b[45]\d\d `([a-z_]+)`", page):
        assert code in _codes() | {"gateway_away"}, code


def test_log_lines_are_those_of_the_gateway():
    """What is to be looked for in the log stands in the code."""
    for line in re.findall(r"log lines? ((?:`[^`]+`(?:, )?)+)", text_of("troubleshooting.md")):
        for event in re.findall(r"`([^`]+)`", line):
            assert f'"{event}"' in SOURCES, event


def _codes() -> set[str]:
    return {kind.code for kind in vars(errors).values() if isinstance(kind, type) and hasattr(kind, "code")}


@pytest.mark.process
def test_the_quick_start_for_operators_runs_from_its_beginning_to_its_end(tmp_path: Path):
    """Each of its commands succeeds, one row is exported, and the gateway ends with 0."""
    script = Reader(DOCS / "quickstart-operator.md").here("\n".join(texts_of(DOCS / "quickstart-operator.md", "bash")))
    program = tmp_path / "bin" / "gateway"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m gateway "$@"\n')
    program.chmod(0o755)
    begin = "set -euo pipefail\ntrap 'kill $(jobs -p) 2>/dev/null || true' EXIT\n"
    end = "\npids=($(jobs -p))\nwait ${pids[1]}\necho ended with $?\n"
    path = f"{program.parent}{os.pathsep}{os.environ['PATH']}"
    run = subprocess.run(
        ["bash", "-c", begin + script + end],
        capture_output=True,
        text=True,
        timeout=300,
        cwd=tmp_path,
        env=surroundings(PATH=path, PYTHONPATH=str(ROOT), HF_HUB_OFFLINE="1"),
        check=False,
    )

    assert run.returncode == 0, run.stdout + run.stderr
    assert run.stdout.endswith("ended with 0\n")
    assert "gateway_rank_up{" in run.stdout
    assert len((tmp_path / "rows.ndjson").read_text().splitlines()) == 1


def test_many_segments_lead_to_the_doctor():
    """Who has them wants to know which of their messages are rewritten."""
    chapter = text_of("troubleshooting.md").partition("### Many segments")[2].partition("###")[0]
    assert "](doctor.md)" in chapter
