"""The page of the command line says what there is, and its example does what it says."""

import re
import shlex
import subprocess
import sys
from typing import Any

import pytest
import typer

from gateway.cli import cli
from tests.readme.documents import ROOT, texts_of

DOCUMENT = ROOT / "docs" / "cli.md"
PAGE = DOCUMENT.read_text()


def test_every_command_has_its_place_on_the_page():
    """And none is there that is not."""
    group: Any = typer.main.get_command(cli)
    named = re.findall(r"`gateway ([a-z]+)(?: ([a-z]+)`((?:, `[a-z]+`)*))?", PAGE.partition("## Settings")[0])
    said = {name: {first, *re.findall("[a-z]+", rest)} - {""} for name, first, rest in named}

    assert said == {name: set(getattr(command, "commands", {})) for name, command in group.commands.items()}


@pytest.mark.process
def test_the_example_prints_what_the_page_says(tmp_path):
    """The file as it stands there, and the command."""
    (file,) = texts_of(DOCUMENT, "yaml")
    (command,) = texts_of(DOCUMENT, "bash")
    (tmp_path / "gateway.yaml").write_text(file)
    (tmp_path / "admin.key").write_text("hush\n")
    variable, _, *args = shlex.split(command)
    name, _, value = variable.partition("=")
    environment = {name: value, "COLUMNS": "200", "PYTHONPATH": ":".join(filter(None, sys.path))}

    printed = subprocess.run(
        [sys.executable, "-m", "gateway", *args],
        cwd=tmp_path, env=environment, capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip

    rows = {line.split()[0]: line.split()[1:] for line in printed.splitlines()}
    assert rows["rank_turns"] == ["16", "--rank-turns"]
    assert rows["port"] == ["0", "GATEWAY_PORT"]
    assert rows["queue_turns"] == ["100", "gateway.yaml:queue_turns"]
    assert rows["admin_key"] == ["set", "gateway.yaml:admin_key_file", "admin.key"]
    assert rows["host"] == ["127.0.0.1", "default"]
