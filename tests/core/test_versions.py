"""Policy versions count by when they were first seen."""

import pytest

from gateway.core.types import VersionSpan
from gateway.core.versions import Versions


def seen(*names: str) -> Versions:
    """These versions, one turn each."""
    versions = Versions()
    for name in names:
        versions.note([VersionSpan(name, 0, 1)])
    return versions


@pytest.mark.parametrize(
    ("max_staleness", "count", "fresh"),
    [
        (0, None, {"c"}),
        (1, None, {"b", "c"}),
        (2, None, {"a", "b", "c"}),
        (9, None, {"a", "b", "c"}),
        (0, 2, {"b"}),
        (1, 0, set()),
    ],
)
def test_staleness_counts_versions_from_the_newest(max_staleness, count, fresh):
    """The newest that was known at a moment; that a version is seen again makes it no newer."""
    assert seen("a", "b", "a", "c", "b").fresh(max_staleness, count) == fresh


def test_without_a_bound_age_does_not_matter():
    """Not even that of what nobody knows."""
    assert seen("a", "unknown").fresh(None) is None


def test_unknown_is_none_of_them():
    """It is neither newer than a version, nor older, nor fresh."""
    versions = seen("a", "unknown")
    assert len(versions) == 1
    assert versions.fresh(0) == frozenset(["a"])
