"""Fireworks' cookbook: a package of git only, so what stands in its place here are doubles that are named so."""

import sys
from types import ModuleType

import pytest

from gateway.errors import ConfigError, PackageAbsent
from gateway.render import fireworks

NAME = "kimi_k27_code"


@pytest.fixture(autouse=True)
def forgotten(monkeypatch):
    """Nothing of that name is imported before, nor after."""
    for module in ("training", "training.renderer"):
        monkeypatch.delitem(sys.modules, module, raising=False)
    yield
    for module in ("training", "training.renderer"):
        sys.modules.pop(module, None)


@pytest.fixture
def fireworks_double(tmp_path, monkeypatch):
    """A package of that name whose renderers say what they are told to."""

    def written(source):
        (tmp_path / "training").mkdir()
        (tmp_path / "training" / "__init__.py").touch()
        (tmp_path / "training" / "renderer.py").write_text(source)
        monkeypatch.syspath_prepend(str(tmp_path))

    return written


def test_a_cookbook_that_is_not_there_is_named_with_the_remedy():
    """It is no fault where something else serves as well."""
    with pytest.raises(
        PackageAbsent, match=rf"Fireworks' cookbook, which has the renderer '{NAME}', is not installed: ."
    ):
        fireworks.register(NAME)


def test_another_package_of_that_plain_name_is_not_it(fireworks_double, tmp_path):
    """Many projects have a package called training."""
    fireworks_double("")
    (tmp_path / "training" / "renderer.py").unlink()
    with pytest.raises(PackageAbsent):
        fireworks.register(NAME)


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("import a_package_that_is_not_there", "ModuleNotFoundError: No module named 'a_package_that_is_not_there'"),
        ("raise RuntimeError('no such symbol')", "RuntimeError: no such symbol"),
        ("from json import nothing_of_the_kind", "ImportError: cannot import name 'nothing_of_the_kind'"),
    ],
)
def test_a_broken_one_is_named_with_what_broke_it(fireworks_double, source, reason):
    """It is another thing than one that is not there: whoever has installed it wants it used."""
    fireworks_double(source)
    with pytest.raises(ConfigError, match=rf"'{NAME}', is installed and cannot be imported \({reason}") as raised:
        fireworks.register(NAME)
    assert not isinstance(raised.value, PackageAbsent)


def test_it_is_imported_once(fireworks_double):
    """To import it is to register what it has."""
    fireworks_double("import sys\nsys.modules['training'].times = getattr(sys.modules['training'], 'times', 0) + 1")
    fireworks.register(NAME)
    fireworks.register(NAME)
    package: ModuleType = sys.modules["training"]
    assert package.times == 1
