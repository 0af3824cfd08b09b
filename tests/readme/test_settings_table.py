"""The README's table of settings is the code's."""

import re

import pytest

from gateway.settings import Settings
from tools.settings_table import README, written


def test_the_readme_has_the_settings_as_they_are():
    """Each, with its flag, variable and default; `python tools/settings_table.py` writes it anew."""
    text = README.read_text()

    assert written(text) == text


def test_the_table_has_a_row_for_each_setting():
    """In their order, with the variable that is read."""
    rows = re.findall(r"^\| `--([a-z-]+)`(?: …)? \| `GATEWAY_([A-Z_]+)` \|", README.read_text(), re.MULTILINE)

    assert [flag.replace("-", "_") for flag, _ in rows] == list(Settings.model_fields)
    assert [variable.lower() for _, variable in rows] == list(Settings.model_fields)


def test_a_readme_without_its_markers_is_not_written():
    """Rather than losing what stands there."""
    with pytest.raises(ValueError, match="must have"):
        written("# A readme\n")
