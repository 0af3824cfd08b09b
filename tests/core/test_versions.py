"""Policy versions count by when they were first seen, unless an engine shows their order."""

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


@pytest.mark.parametrize(
    ("turns", "order"),
    [
        (["b", "ab"], "ab"),
        (["c", "abc"], "abc"),
        (["ab"], "ab"),
        (["a", "ab"], "ab"),
        (["ac", "abc"], "abc"),
        (["ba", "ab"], "ba"),
        (["aba"], "ab"),
    ],
)
def test_a_completion_shows_the_order_of_its_versions(turns, order):
    """A long turn of the old policy that is the first to be recorded of it does not make it the newest."""
    versions, count = Versions(), 0
    for turn in turns:
        moments = [versions.fresh(age, count) for age in range(3)]
        versions.note([VersionSpan(name, at, at + 1) for at, name in enumerate(turn)])
        assert moments == [versions.fresh(age, count) for age in range(3)]  # what was of a moment stays so
        count = len(versions)

    assert [versions.fresh(age) for age in range(len(order))] == [
        frozenset(order[-1 - age :]) for age in range(len(order))
    ]


def test_without_a_bound_age_does_not_matter():
    """Not even that of what nobody knows."""
    assert seen("a", "unknown").fresh(None) is None


def test_unknown_is_none_of_them():
    """It is neither newer than a version, nor older, nor fresh."""
    versions = seen("a", "unknown")
    assert len(versions) == 1
    assert versions.fresh(0) == frozenset(["a"])
