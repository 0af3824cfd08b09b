"""Rows hold what was sampled, where it was sampled, and train it once."""

from collections import Counter

from gateway.core.segments import Rows
from gateway.core.types import Labels
from tests.core.toy import Talk, user


def trained(row):
    return [i for i, mask in zip(row.token_ids, row.loss_mask, strict=True) if mask]


def test_a_linear_session_is_one_row_with_every_sampled_id_trained():
    """Mask 1 on completions, 0 on everything else, logprobs in their places."""
    talk = Talk()
    history = [user("a")]
    turns = []
    for text in "bcd":
        turns.append(talk.take(*history))
        history += [turns[-1].message, user(text)]
    (row,) = Rows(talk.ledger.turns)

    last = turns[-1]
    assert last.prompt_ids() + last.completion.ids == row.token_ids
    assert [i for turn in turns for i in turn.completion.ids] == trained(row)
    assert len(row.token_ids) == len(row.loss_mask) == len(row.logprobs)
    for part, turn in zip(row.turns, turns, strict=True):
        assert turn.completion.ids == row.token_ids[part.start : part.end]
        assert turn.completion.logprobs == row.logprobs[part.start : part.end]
        assert part.trained
    assert all(value == 0.0 for value, mask in zip(row.logprobs, row.loss_mask, strict=True) if not mask)
    assert row.id == last.id


def test_a_rendered_turn_starts_another_row():
    """Ids before a full render may differ from those sampled, so they are context there."""
    talk = Talk()
    first = talk.take(user("a"))
    talk.renderer.declines = True
    second = talk.take(user("a"), first.message, user("b"))
    one, two = Rows(talk.ledger.turns)

    assert [first] == [part.turn for part in one.turns]
    assert [second] == [part.turn for part in two.turns]
    assert list(second.completion.ids) == trained(two)


def test_turns_shared_by_rows_are_trained_in_the_first_of_them():
    """Each sampled id has mask 1 exactly once over all rows."""
    talk = Talk()
    first = talk.take(user("a"))
    left = talk.take(user("a"), first.message, user("b"))
    right = talk.take(user("a"), first.message, user("c"))
    one, two = Rows(talk.ledger.turns)

    assert list(first.completion.ids + left.completion.ids) == trained(one)
    assert list(right.completion.ids) == trained(two)
    assert [False, True] == [part.trained for part in two.turns]
    assert first.completion.logprobs == two.logprobs[two.turns[0].start : two.turns[0].end]
    assert Counter({"t0": 1, "t1": 1, "t2": 1}) == Counter(
        part.turn.id for row in (one, two) for part in row.turns if part.trained
    )


def test_aborted_turns_are_in_no_row():
    """They were never the answer to anything."""
    talk = Talk()
    talk.take(user("a"), status="aborted")

    assert list(Rows(talk.ledger.turns)) == []


def test_a_turn_that_is_not_to_be_trained_is_context():
    """By the harness's own word; the turns after it are trained as ever."""
    talk = Talk()
    first = talk.take(user("a"), labels=Labels(train=False))
    second = talk.take(user("a"), first.message, user("b"))
    (row,) = Rows(talk.ledger.turns)

    assert list(second.completion.ids) == trained(row)
    assert [False, True] == [part.trained for part in row.turns]


def test_a_row_with_nothing_to_train_is_left_out():
    """A side call that the harness marked, or one that hangs below turns trained elsewhere."""
    talk = Talk()
    first = talk.take(user("a"))
    talk.take(user("title"), labels=Labels(train=False))
    main = talk.take(user("a"), first.message, user("b"))
    talk.take(user("a"), first.message, user("c"), labels=Labels(train=False))

    assert [main.id] == [row.id for row in Rows(talk.ledger.turns)]


def test_a_turn_below_one_that_is_not_trained_is_still_trained_once():
    """Whatever stands between."""
    talk = Talk()
    first = talk.take(user("a"))
    second = talk.take(user("a"), first.message, user("b"), labels=Labels(train=False))
    left = talk.take(user("a"), first.message, user("b"), second.message, user("c"))
    right = talk.take(user("a"), first.message, user("b"), second.message, user("d"))
    one, two = Rows(talk.ledger.turns)

    assert list(first.completion.ids + left.completion.ids) == trained(one)
    assert list(right.completion.ids) == trained(two)


def test_a_row_is_made_when_it_is_asked_for():
    """All rows together may be as large as the square of what was said."""
    talk = Talk()
    talk.take(user("a"))
    talk.take(user("b"))
    rows = Rows(talk.ledger.turns)

    assert len(rows) == 2
    assert rows[1] is not rows[1]
    assert [row.id for row in rows] == [rows[0].id, rows[1].id]
