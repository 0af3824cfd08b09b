"""Rows hold what was sampled, where it was sampled, and train it once."""

from collections import Counter

from gateway.core.segments import rows
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
    (row,) = rows(talk.ledger.turns)

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
    one, two = rows(talk.ledger.turns)

    assert [first] == [part.turn for part in one.turns]
    assert [second] == [part.turn for part in two.turns]
    assert list(second.completion.ids) == trained(two)


def test_turns_shared_by_rows_are_trained_in_the_first_of_them():
    """Each sampled id has mask 1 exactly once over all rows."""
    talk = Talk()
    first = talk.take(user("a"))
    left = talk.take(user("a"), first.message, user("b"))
    right = talk.take(user("a"), first.message, user("c"))
    one, two = rows(talk.ledger.turns)

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

    assert rows(talk.ledger.turns) == []
