"""The salt that keeps the prefix caches of policies apart."""

from itertools import combinations

import pytest

from gateway.core.salt import MAX_CHARS, Starts, salt


@pytest.mark.parametrize(
    ("rule", "start", "current", "own", "whole"),
    [
        ("start", "a", "b", None, "policy 1:a"),
        ("current", "a", "b", None, "policy 1:b"),
        ("none", "a", "b", None, None),
        ("none", "a", "b", "mine", "mine"),
        ("start", "a", "b", "mine", "policy 1:a mine"),
        ("start", "unknown", "b", "mine", "mine"),
        ("start", "unknown", "b", None, None),
        ("current", "a", "unknown", None, None),
    ],
)
def test_a_salt_is_the_version_that_the_rule_names_with_the_callers_own(rule, start, current, own, whole):
    """What nobody knows is left out."""
    assert salt(rule, start=start, current=current, own=own) == whole


@pytest.mark.parametrize("own", ["x" * MAX_CHARS, "é" * MAX_CHARS])
def test_a_salt_is_never_longer_than_engines_take(own):
    """Beyond that it is a digest, another for each version and each caller."""
    salts = [salt("start", start=start, current="", own=mine) for start in "ab" for mine in (own, own[:-1])]
    assert all(len(one or "") <= MAX_CHARS for one in salts)
    assert len(set(salts)) == 4


def test_salts_of_different_versions_and_callers_differ():
    """However their parts are spelt."""
    names = ["a", "a b", "1:a", "b"]
    salts = [salt("start", start=start, current="", own=own) for start in names for own in [None, *names]]
    assert not [pair for pair in combinations(salts, 2) if pair[0] == pair[1]]


def test_a_group_begins_with_its_first_session():
    """And is forgotten with its last; sessions without a group begin each on its own."""
    starts = Starts()
    assert [starts.enter(group).at(version) for group, version in [("g", "a"), ("g", "b"), (None, "b")]] == [*"aab"]
    starts.leave("g")
    starts.leave(None)
    assert starts.enter("g").at("c") == "a"
    starts.leave("g")
    starts.leave("g")
    assert len(starts) == 0
    assert starts.enter("g").at("c") == "c"


def test_a_session_begins_when_it_is_first_asked_and_not_when_it_is_made():
    """And stays there; so does its group, whose ever call is the first."""
    starts = Starts()
    one, other = starts.enter("g"), starts.enter("g")
    assert [other.at("b"), one.at("c"), other.at("d")] == ["b", "b", "b"]
