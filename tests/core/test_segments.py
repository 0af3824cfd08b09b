"""Which rows there are, which of them trains what, and why the rest is left out."""

from gateway.core.segments import Segments
from gateway.core.selection import Selection
from gateway.core.types import Labels
from tests.core.present import session_now
from tests.core.toy import Talk, assistant, user

UNTRAINED = Labels(train=False)


def segments(talk: Talk, selection: Selection | None = None, fresh: frozenset[str] | None = None) -> Segments:
    """The rows of a session, as it is now."""
    return Segments(session_now(talk.ledger), selection or Selection(), fresh)


def leaves(found: Segments) -> list[str]:
    return [leaf.id for leaf in found.leaves]


def left_out(found: Segments) -> dict[str, str]:
    """The turns that no row trains, with their reasons."""
    return {left.turn.id: left.because for left in found.excluded()}


def trained(found: Segments) -> dict[str, list[str]]:
    """Of each row the turns that it trains."""
    return {
        leaf.id: [turn.id for turn in leaf.segment() if found.masked(turn, row) is None]
        for row, leaf in enumerate(found.leaves)
    }


def forked(**fields) -> Talk:
    """t0, and from it t1 and t2; `fields` are those of t1."""
    talk = Talk()
    first = talk.take(user("a"))
    talk.take(user("a"), first.message, user("b"), **fields)
    talk.take(user("a"), first.message, user("c"))
    return talk


def test_a_shared_turn_is_trained_in_the_first_row_that_holds_it():
    """Or in each, with or without its weight shared."""
    talk = forked()
    t0, t1, t2 = talk.ledger.turns
    once = segments(talk)
    assert trained(once) == {"t1": ["t0", "t1"], "t2": ["t2"]}
    assert [once.masked(t0, 0), once.masked(t0, 1)] == [None, "earlier_row"]
    for selection in (Selection(shared="split"), Selection(shared="duplicate")):
        found = segments(talk, selection)
        assert trained(found) == {"t1": ["t0", "t1"], "t2": ["t0", "t2"]}
        assert [found.rows_of(turn) for turn in (t0, t1, t2)] == [2, 1, 1]


def test_trainable_tokens_count_what_the_rows_train():
    """A turn counts once, be it shared or not, unless every row trains all of it."""
    talk = forked()
    t0, t1, t2 = (len(turn.completion.ids) for turn in talk.ledger.turns)
    for selection, tokens in (
        (Selection(), t0 + t1 + t2),
        (Selection(shared="split"), t0 + t1 + t2),
        (Selection(shared="duplicate"), t0 + t1 + t0 + t2),
    ):
        assert segments(talk, selection).trainable_tokens() == tokens


def test_who_trains_a_shared_turn_is_settled_after_selection():
    """So nothing is lost with a row that is not there."""
    found = segments(forked(), Selection(leaves="latest"))
    assert trained(found) == {"t2": ["t0", "t2"]}
    assert left_out(found) == {"t1": "leaf"}


def test_a_turn_that_is_not_to_be_trained_is_context_in_a_row_that_trains_others():
    """It is listed with its reason."""
    found = segments(forked(labels=UNTRAINED), Selection(dropped="exclude"))
    assert trained(found) == {"t1": ["t0"], "t2": ["t2"]}
    assert left_out(found) == {"t1": "train_false"}
    t0, _, t2 = (len(turn.completion.ids) for turn in found.source.ledger.turns)
    assert found.trainable_tokens() == t0 + t2


def test_a_row_whose_turns_others_train_is_there_only_where_each_row_trains_them():
    """With `once` it would train nothing."""
    talk = Talk()
    first = talk.take(user("a"))
    talk.take(user("a"), first.message, user("b"))
    talk.take(user("a"), first.message, user("c"), labels=UNTRAINED)
    assert leaves(segments(talk)) == ["t1"]
    assert leaves(segments(talk, Selection(shared="duplicate"))) == ["t1", "t2"]
    side = Talk()
    side.take(user("title"), labels=UNTRAINED)
    assert leaves(segments(side, Selection(shared="duplicate"))) == []


def test_rows_come_after_those_that_they_continue():
    """Even where what they continue grew later."""
    talk = Talk()
    first = talk.take(user("a"))
    talk.renderer.declines = True
    talk.take(user("a"), first.message, user("b"))
    talk.renderer.declines = False
    talk.take(user("a"), first.message, user("c"))
    found = segments(talk)
    assert leaves(found) == ["t2", "t1"]
    assert [found.first_row(turn) for turn in talk.ledger.turns] == [0, 1, 0]
    assert found.first_row(None) is None


def test_aborted_turns_are_in_rows_only_when_asked_for():
    """One that is takes the place of the row that it goes on from."""
    talk = Talk()
    first = talk.take(user("a"))
    talk.take(user("a"), first.message, user("b"), status="aborted")
    talk.take(user("z"), status="aborted")
    assert leaves(segments(talk)) == ["t0"]
    assert left_out(segments(talk)) == {"t1": "aborted", "t2": "aborted"}
    found = segments(talk, Selection(include_aborted=True))
    assert trained(found) == {"t1": ["t0", "t1"], "t2": ["t2"]}
    assert left_out(found) == {}
    assert left_out(segments(talk, Selection(include_aborted=True, leaves="latest"))) == {"t0": "leaf", "t1": "leaf"}


def test_the_latest_leaf_is_one_that_has_something_to_train():
    """A title call at the end is no rollout."""
    talk = forked()
    talk.take(user("title"), labels=UNTRAINED)
    found = segments(talk, Selection(leaves="latest"))
    assert leaves(found) == ["t2"]
    assert left_out(found) == {"t1": "leaf", "t3": "train_false"}


def test_what_is_stale_is_not_trained_and_keeps_its_row():
    """Only a turn of which nothing is fresh is left out."""
    talk = Talk()
    talk.take(user("a"), answer=assistant("xyz"), versions="aabb")
    talk.take(user("b"), answer=assistant("x"), versions="aa")
    found = segments(talk, Selection(max_staleness=0), frozenset("b"))
    assert leaves(found) == ["t0", "t1"]
    assert [found.masked(turn, row) for row, turn in enumerate(talk.ledger.turns)] == [None, "stale"]
    assert [found.trained_ids(turn) for turn in talk.ledger.turns] == [2, 0]
    assert found.trainable_tokens() == 2
    assert left_out(found) == {"t1": "stale"}
    assert [found.is_stale(version) for version in ("a", "b", "unknown")] == [True, False, True]


def test_what_was_not_known_at_the_moment_is_not_told():
    """Turns and deliveries that come later belong to another export."""
    talk = forked()
    before_more = session_now(talk.ledger)
    t0, t1, t2 = talk.ledger.turns
    talk.take(user("a"), t0.message, user("c"), t2.message, user("d"))
    talk.ledger.deliveries.note(t1, delivered=False)
    before, after = Segments(before_more, Selection(), None), segments(talk)
    assert trained(before) == {"t1": ["t0", "t1"], "t2": ["t2"]}
    assert trained(after) == {"t1": ["t0"], "t3": ["t2", "t3"]}
    assert left_out(after) == {"t1": "undelivered"}
