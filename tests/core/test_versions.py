"""Policy versions count by when they were announced; otherwise by when they were seen, or as an engine shows them."""

from typing import Literal

import pytest

from gateway.core.types import VersionSpan
from gateway.core.versions import Announced, Marks, Versions


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


UNTOLD = "unknown"


def announced(*names: str, fenced: bool = True) -> Versions:
    """These versions, one after the other."""
    versions = Versions()
    for name in names:
        versions.announce(name, fenced=fenced)
    return versions


Source = Literal["engine", "fenced", "assumed"]


def spans_of(marks: Marks, length: int, *told: tuple[str, int, int, Source]) -> list[tuple[str, int, int, str]]:
    """The spans of an answer, of which engines told nothing unless said otherwise."""
    untold: tuple[str, int, int, Source] = (UNTOLD, 0, length, "assumed")
    spans = [VersionSpan(*span) for span in told or [untold]]
    return [(span.version, span.start, span.end, span.source) for span in marks.spans(length, spans)]


def order(versions: Versions, moment: int | None = None) -> list[str]:
    """Every version, from the oldest to the newest."""
    ages = [versions.fresh(age, moment) or frozenset() for age in range(9)]
    newest = [*ages[0], *(name for age, older in enumerate(ages[1:]) for name in older - ages[age])]
    return newest[::-1]


def test_announcements_set_the_order_of_age():
    """Whatever was seen of them before, and in whatever order; what only engines name comes where it was seen."""
    versions = seen("c", "b", "x")
    for name in "abc":
        versions.announce(name, fenced=True)
    assert order(versions) == ["x", "a", "b", "c"]
    assert [versions.staleness(name) for name in ("c", "b", "x", "unknown")] == [0, 1, 3, 0]
    versions.note([VersionSpan("y", 0, 1), VersionSpan("b", 1, 2), VersionSpan("z", 2, 3)])
    assert order(versions) == ["x", "a", "y", "b", "c", "z"]


def test_what_is_read_of_a_moment_keeps_the_order_of_that_moment():
    """Also where a version that was known came to another place since."""
    versions = seen("b", "a")
    moment, before = len(versions), order(versions)
    versions.announce("a", fenced=True)
    versions.announce("b", fenced=True)
    assert (before, order(versions)) == (["b", "a"], ["a", "b"])
    assert order(versions, moment) == before
    assert order(versions, len(versions)) == ["a", "b"]


def test_the_current_version_is_the_one_announced_last():
    """Before any announcement it is the newest that an engine named; taken back to an older one, that stays as old."""
    assert (Versions().now, Versions().current) == ("unknown", None)
    assert seen("a", "b").now == "b"
    versions = announced("a", "b", "a")
    assert (versions.now, versions.current) == ("a", Announced("a", 1, fenced=True))
    assert order(versions) == ["a", "b"]


def test_to_announce_the_same_again_changes_nothing():
    """Save that a fence is better than none, and is not lost again."""
    versions = Versions()
    news = [versions.announce("a", fenced=fenced) for fenced in (False, False, True, False, True)]
    assert news == [True, False, True, False, False]
    assert versions.current == Announced("a", 1, fenced=True)
    assert len(versions) == 1


def test_a_version_that_is_doubted_is_assumed_until_it_is_announced_with_a_fence():
    """As if there had been none; that is no other version, and none is none."""
    versions = Versions()
    versions.doubt()
    assert versions.current is None
    versions = announced("a", "b")
    versions.doubt()
    assert versions.current == Announced("b", 2, fenced=False)
    marks = versions.marks()
    marks.begin(0, "e")
    assert [versions.announce("b", fenced=fenced) for fenced in (False, True)] == [False, True]
    marks.begin(3, "e")
    assert spans_of(marks, 5) == [("b", 0, 3, "assumed"), ("b", 3, 5, "fenced")]


def test_what_is_sampled_while_weights_may_change_is_assumed():
    """From the doubt to the trust, or to an announcement, before which it may have been the next already."""
    versions = announced("a")
    marks = versions.marks()
    marks.begin(0, "e")
    marks.doubt(2)
    marks.trust(4)
    marks.trust(5)
    marks.doubt(6)
    versions.announce("b", fenced=True)
    marks.mark(8, "b", "assumed")
    told = [("a", 0, 2, "fenced"), ("a", 2, 4, "assumed"), ("a", 4, 6, "fenced"), ("a", 6, 8, "assumed")]
    assert spans_of(marks, 9) == [*told, ("b", 8, 9, "assumed")]


def test_what_an_engine_samples_after_its_admission_is_assumed_until_an_announcement_with_a_fence():
    """It may have been started with other weights; what others sampled before and elsewhere is as sure as it was."""
    versions = Versions()
    versions.admit("first")
    versions.announce("a", fenced=True)
    marks = versions.marks()
    marks.begin(0, "first")
    versions.admit("again")
    versions.announce("a", fenced=False)
    marks.begin(2, "again")
    marks.begin(3, "first")
    versions.announce("b", fenced=True)
    versions.admit("again")
    marks.begin(4, "again")
    assert not versions.announce("b", fenced=True)
    marks.begin(5, "again")
    told = [("a", 0, 2, "fenced"), ("a", 2, 3, "assumed"), ("a", 3, 4, "fenced"), ("b", 4, 5, "assumed")]
    assert spans_of(marks, 6) == [*told, ("b", 5, 6, "fenced")]


def test_nothing_is_kept_of_an_engine_that_was_removed():
    """However many come and go."""
    versions = Versions()
    versions.announce("a", fenced=True)
    versions.admit("e")
    assert (versions.bounds("e"), versions.bounds("f")) == ("assumed", "fenced")
    versions.forget("e")
    versions.forget("f")
    assert versions.bounds("e") == versions.bounds("f")


def test_of_what_nobody_has_announced_nothing_is_doubted():
    """It is unknown as it is."""
    marks = Versions().marks()
    marks.begin(0, "e")
    marks.doubt(1)
    marks.trust(2)
    assert spans_of(marks, 3) == [("unknown", 0, 3, "assumed")]


def test_before_any_announcement_nothing_is_known():
    """As if there were no marks: what engines say is kept as they say it."""
    marks = seen("a").marks()
    marks.begin(0, "e")
    assert spans_of(marks, 5) == [("unknown", 0, 5, "assumed")]
    told: tuple[str, int, int, Source] = ("unknown", 0, 5, "engine")
    assert spans_of(marks, 5, told) == [told]
    assert marks.staleness() == 0


@pytest.mark.parametrize(("fenced", "source"), [(True, "fenced"), (False, "assumed")])
def test_a_call_is_sampled_by_the_version_that_was_announced_before_it(fenced, source):
    """With the certainty of that announcement."""
    marks = announced("a", fenced=fenced).marks()
    marks.begin(0, "e")
    assert spans_of(marks, 5) == [("a", 0, 5, source)]


def test_an_answer_that_is_carried_on_after_a_pause_shows_both_versions_exactly():
    """It had no call while the version was announced."""
    versions = announced("a")
    marks = versions.marks()
    marks.begin(0, "e")
    versions.announce("b", fenced=True)
    marks.begin(3, "e")
    assert spans_of(marks, 5) == [("a", 0, 3, "fenced"), ("b", 3, 5, "fenced")]
    assert marks.staleness() == 1
    assert spans_of(marks, 3) == [("a", 0, 3, "fenced")]


def test_a_switch_that_is_assumed_makes_the_span_before_it_assumed():
    """Where it was in truth is not known; what is before that is as it was."""
    versions = announced("a")
    marks = versions.marks()
    marks.begin(0, "e")
    marks.mark(2, "b", "fenced")
    marks.mark(4, "c", "assumed")
    marks.mark(4, "c", "assumed")
    assert spans_of(marks, 6) == [("a", 0, 2, "fenced"), ("b", 2, 4, "assumed"), ("c", 4, 6, "assumed")]


def test_versions_that_sampled_nothing_leave_no_span():
    """An announcement may come before the first id, or two between one id and the next."""
    marks = Versions().marks()
    marks.begin(0, "e")
    marks.mark(0, "a", "fenced")
    marks.mark(2, "b", "fenced")
    marks.mark(2, "c", "fenced")
    marks.mark(5, "d", "fenced")
    assert spans_of(marks, 5) == [("a", 0, 2, "fenced"), ("c", 2, 5, "fenced")]


def test_an_answer_that_is_begun_anew_forgets_what_sampled_the_tokens_it_discards():
    """From its beginning, or from where it goes on."""
    versions = announced("a")
    marks = versions.marks()
    marks.begin(0, "e")
    marks.mark(4, "b", "assumed")
    marks.begin(2, "e")
    assert spans_of(marks, 5) == [("a", 0, 2, "assumed"), ("a", 2, 5, "fenced")]
    marks.begin(0, "e")
    assert spans_of(marks, 5) == [("a", 0, 5, "fenced")]


def test_what_an_engine_says_wins_over_what_was_announced():
    """Marks fill only what it leaves unknown."""
    marks = announced("a").marks()
    marks.begin(0, "e")
    marks.mark(4, "b", "fenced")
    told: list[tuple[str, int, int, Source]] = [
        ("x", 0, 2, "engine"),
        ("unknown", 2, 3, "assumed"),
        ("unknown", 3, 6, "assumed"),
        ("b", 6, 7, "engine"),
    ]
    assert spans_of(marks, 7, *told) == [
        ("x", 0, 2, "engine"),
        ("a", 2, 4, "fenced"),
        ("b", 4, 6, "fenced"),
        ("b", 6, 7, "engine"),
    ]


def test_the_ordinal_is_that_of_the_current_version():
    """Of none it is none."""
    assert Versions().ordinal == 0
    assert announced("a", "b").ordinal == 2
