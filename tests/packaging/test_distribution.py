"""The wheel and the sdist hold what they need, and nothing else."""

import tarfile
import zipfile
from pathlib import Path

import pytest
from hatchling.builders.sdist import SdistBuilder
from hatchling.builders.wheel import WheelBuilder

from gateway import __version__

ROOT = Path(__file__).parents[2]
NAME = f"rollout_gateway-{__version__}"


def package() -> set[str]:
    """The files of the package as they stand in the tree."""
    files = (path for path in (ROOT / "gateway").rglob("*") if path.is_file() and path.suffix != ".pyc")
    return {path.relative_to(ROOT).as_posix() for path in files}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    """The wheel, built anew."""
    (path,) = WheelBuilder(str(ROOT)).build(directory=str(tmp_path_factory.mktemp("wheel")))
    return zipfile.ZipFile(path)


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """The names in the sdist, built anew."""
    (path,) = SdistBuilder(str(ROOT)).build(directory=str(tmp_path_factory.mktemp("sdist")))
    with tarfile.open(path) as archive:
        return {name.removeprefix(f"{NAME}/") for name in archive.getnames()}


def test_the_wheel_is_the_package_and_its_papers(wheel: zipfile.ZipFile) -> None:
    """Package data is there, as are the types' marker and the licence; no tests, no caches, no tools."""
    papers = {"METADATA", "WHEEL", "RECORD", "entry_points.txt", "licenses/LICENSE"}

    schema = {"gateway/row.schema.json"}
    assert set(wheel.namelist()) == package() | schema | {f"{NAME}.dist-info/{paper}" for paper in papers}
    assert "gateway/py.typed" in wheel.namelist()


def test_the_wheel_has_both_commands(wheel: zipfile.ZipFile) -> None:
    """They are one."""
    commands = wheel.read(f"{NAME}.dist-info/entry_points.txt").decode()

    assert "gateway = gateway.cli:main" in commands.splitlines()
    assert "rollout-gateway = gateway.cli:main" in commands.splitlines()


def test_the_wheel_says_what_it_needs(wheel: zipfile.ZipFile) -> None:
    """The Pythons it runs on, the licence, and no address of a package among its needs."""
    metadata = wheel.read(f"{NAME}.dist-info/METADATA").decode().splitlines()

    assert "Requires-Python: >=3.11" in metadata
    assert "License-Expression: Apache-2.0" in metadata
    assert not [line for line in metadata if line.startswith("Requires-Dist") and "@" in line]


def test_the_sdist_builds_the_same_wheel(sdist: set[str]) -> None:
    """It has the package, what its metadata is made from, and what the build tool adds."""
    made_from = {"pyproject.toml", "docs/row.schema.json", "README.md", "CHANGELOG.md", "LICENSE"}

    assert sdist == package() | made_from | {"PKG-INFO", ".gitignore"}


def test_no_file_is_longer_than_can_be_read_at_once() -> None:
    """Three hundred lines: what grows beyond is two things."""
    lines = {path: path.read_text().count("\n") for path in (ROOT / "gateway").rglob("*.py")}

    assert {path.name: count for path, count in lines.items() if count > 300} == {}
