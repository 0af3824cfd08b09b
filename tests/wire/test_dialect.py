"""What makes a northbound dialect."""

import pytest

from gateway.wire import chat
from gateway.wire.dialect import Dialect

DIALECTS: list[Dialect] = [chat]
"""Checked by mypy: a module is a dialect if its functions fit."""


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_dialect_has_all_functions_of_the_protocol(dialect):
    """By name, for those who do not run a type checker."""
    promised = {name for name in vars(Dialect) if not name.startswith("_")}
    assert {"decode", "encode", "encode_error", "stream"} == promised
    assert promised <= vars(dialect).keys()


def test_dialects_have_names_of_their_own():
    """Equal bodies of two dialects are different requests."""
    assert len({dialect.NAME for dialect in DIALECTS}) == len(DIALECTS)
