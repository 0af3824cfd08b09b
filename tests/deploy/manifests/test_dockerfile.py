"""The Dockerfile says nothing that hadolint minds, and is given nothing but what it takes."""

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent.parent
DOCKERFILE = (ROOT / "Dockerfile").read_text()


def test_hadolint_minds_nothing(validators, run):
    assert run(validators / "hadolint", ROOT / "Dockerfile") == ""


def test_the_context_holds_what_is_copied_and_nothing_else():
    """.dockerignore leaves everything out but this: a new file of the tree never gets into an image unseen."""
    copied = {
        source
        for line in re.findall(r"^COPY (?!--from)(.*)$", DOCKERFILE, re.MULTILINE)
        for source in line.split()[:-1]
    }
    ignored = (ROOT / ".dockerignore").read_text().splitlines()

    assert {line.removeprefix("!") for line in ignored if line.startswith("!")} == copied
    assert "*" in ignored
    assert [source for source in copied if not (ROOT / source).exists()] == []


def test_a_change_of_the_gateway_installs_only_the_gateway_anew():
    """The stage before holds what it stands on, and reads only what says so."""
    stages = re.split(r"^FROM ", DOCKERFILE, flags=re.MULTILINE)[1:]
    dependencies, build, _ = stages

    assert re.findall(r"^COPY (.*)$", dependencies, re.MULTILINE) == ["pyproject.toml requirements-dev.lock ./"]
    assert build.startswith("dependencies AS build\n")
    assert "--no-index --no-deps /dist/*.whl" in build
    assert "mount" not in build
