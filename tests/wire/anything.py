"""Arbitrary JSON, JSON that is nearly right, and what was recorded, for the codecs to be fed with."""

from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import strategies as st

GOLDEN = Path(__file__).parent / "golden"

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(codec="utf-8"), max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("abc", max_size=2), inner, max_size=3),
    max_leaves=8,
)


def mostly(good: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Mostly what belongs there, sometimes anything."""
    return st.one_of(good, good, good, JSON)


def objects(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """An object that may lack any of its keys."""
    return st.fixed_dictionaries({}, optional=fields)


def golden(folder: str):
    """A parameter for each golden file of `folder`."""
    files = sorted((GOLDEN / folder).glob("*.json"))
    return pytest.mark.parametrize("case", [pytest.param(orjson.loads(f.read_bytes()), id=f.stem) for f in files])
