"""Rows hold what was sampled, where it was sampled, with its own logprob."""

from array import array

import pytest

from gateway.core.rows import Rollout
from gateway.core.selection import Selection
from gateway.core.side_arrays import SideArray
from gateway.core.types import VersionSpan, float32s
from tests.core.present import session_now
from tests.core.toy import Talk, assistant, user


def rows(*talks: Talk, fresh: frozenset[str] | None = None, **selection):
    """The rows of the rollout that these sessions make."""
    sessions = [session_now(talk.ledger, {"session_id": f"s{number}"}) for number, talk in enumerate(talks)]
    return list(Rollout(sessions, Selection(**selection), fresh))


def trained(row) -> list[int]:
    return [i for i, mask in zip(row.token_ids, row.loss_mask, strict=True) if mask]


def forked() -> Talk:
    """t0, and from it t1 and t2."""
    talk = Talk()
    first = talk.take(user("a"))
    talk.take(user("a"), first.message, user("b"))
    talk.take(user("a"), first.message, user("c"))
    return talk


def test_a_linear_session_is_one_row_with_every_sampled_id_trained():
    """Mask 1 on completions, 0 on everything else, logprobs in their places."""
    talk = Talk()
    history = [user("a")]
    turns = []
    for text in "bcd":
        turns.append(talk.take(*history))
        history += [turns[-1].message, user(text)]
    (row,) = rows(talk)

    last = turns[-1]
    assert last.prompt_ids() + last.completion.ids == row.token_ids
    assert [i for turn in turns for i in turn.completion.ids] == trained(row)
    assert len(row.token_ids) == len(row.loss_mask) == len(row.logprobs)
    for part, turn in zip(row.turns, turns, strict=True):
        assert turn.completion.ids == row.token_ids[part.start : part.end]
        assert turn.completion.logprobs == row.logprobs[part.start : part.end]
        assert part.trained
        assert part.spans() == [VersionSpan("1", part.start, part.end)]
    assert all(value == 0.0 for value, mask in zip(row.logprobs, row.loss_mask, strict=True) if not mask)
    assert row.id == last.id
    assert row.messages == [*history[:-1]]
    assert row.rollout_trainable_tokens == sum(row.loss_mask)
    assert (row.loss_weights, row.stale_versions, row.side_arrays) == (None, (), {})
    assert row.arrays == {"token_ids": row.token_ids, "loss_mask": row.loss_mask, "logprobs": row.logprobs}


def test_a_shared_turn_stands_in_each_row_and_is_trained_in_the_first():
    """Its logprobs are told in both."""
    talk = forked()
    t0, t1, t2 = talk.ledger.turns
    one, two = rows(talk)
    assert trained(one) == list(t0.completion.ids + t1.completion.ids)
    assert trained(two) == list(t2.completion.ids)
    assert [part.masked_because for part in two.turns] == ["earlier_row", None]
    assert two.logprobs[two.turns[0].start : two.turns[0].end] == t0.completion.logprobs


def test_the_weights_of_a_split_turn_add_up_to_one():
    """As near as float32 comes to it, and zero where nothing is trained."""
    talk = forked()
    talk.take(*talk.ledger.history(talk.ledger.turns[0]), user("d"))
    split = rows(talk, shared="split")
    assert len(split) == 3
    assert split[0].arrays["loss_weights"] == split[0].loss_weights
    for row in split:
        first, own = row.turns
        assert set(row.loss_weights[first.start : first.end]) == {float32s([1 / 3])[0]}
        assert set(row.loss_weights[own.start : own.end]) == {1.0}
        assert [weight > 0 for weight in row.loss_weights] == list(map(bool, row.loss_mask))
    assert sum(sum(row.loss_weights) for row in split) == pytest.approx(split[0].rollout_trainable_tokens)
    assert len(rows(talk, shared="duplicate")[2].turns) == 2
    assert sum(sum(row.loss_mask) for row in rows(talk, shared="duplicate")) == 2 * len(
        talk.ledger.turns[0].completion.ids
    ) + sum(map(sum, (row.loss_mask for row in rows(talk))))


def test_a_row_names_the_row_that_it_continues():
    """Of the first turn that no earlier row holds; none where that turn begins something, or its parent is in no row."""
    talk = forked()
    t1, t2 = talk.ledger.turns[1:]
    talk.renderer.declines = True
    talk.take(*talk.ledger.history(t2), user("e"))
    talk.take(user("z"))
    assert [(row.id, row.parent_id) for row in rows(talk)] == [("t1", None), ("t2", "t1"), ("t3", "t2"), ("t4", None)]
    talk.take(*talk.ledger.history(t1), user("f"))
    assert [(row.id, row.parent_id) for row in rows(talk, leaves="latest")] == [("t5", None)]


def test_a_rollout_counts_over_all_its_sessions():
    """In their order; each row says what its session says."""
    one, two, nothing = forked(), Talk(), Talk()
    two.take(user("b"))
    found = rows(one, nothing, two)
    assert [(row.session["session_id"], row.index, row.rows) for row in found] == [
        ("s0", 0, 3),
        ("s0", 1, 3),
        ("s2", 2, 3),
    ]
    (total,) = {row.rollout_trainable_tokens for row in found}
    assert total == sum(sum(row.loss_mask) for row in found)
    rollout = Rollout([session_now(talk.ledger) for talk in (one, nothing, two)])
    assert [rollout.of_session(position) for position in range(3)] == [range(2), range(2, 2), range(2, 3)]
    assert [rollout.excluded(position) for position in range(3)] == [[], [], []]


def test_a_side_array_that_was_asked_for_is_none_where_no_turn_has_it():
    """Rows of all turns are alike."""
    row, _ = Rollout([session_now(forked().ledger)], side_arrays=("sampling_mask",))
    assert row.side_arrays == {"sampling_mask": None}


def test_ids_of_stale_versions_are_masked_and_the_row_stays():
    """A turn is masked altogether only where all of it is stale; `unknown` always is."""
    talk = Talk()
    first = talk.take(user("a"), answer=assistant("xyz"), versions="aabb")
    second = talk.take(user("a"), first.message, user("b"), answer=assistant("w"), versions=["unknown"] * 2)
    (row,) = rows(talk, fresh=frozenset(["b"]), max_staleness=0)
    one, two = row.turns
    assert [one.masked_because, two.masked_because] == [None, "stale"]
    assert list(row.loss_mask[one.start : one.end]) == [0, 0, 1, 1]
    assert sum(row.loss_mask) == row.rollout_trainable_tokens == 2
    assert row.logprobs[one.start : one.end] == first.completion.logprobs
    assert row.stale_versions == ("a", "unknown")
    (untrained,) = rows(talk, fresh=frozenset(), max_staleness=0)
    assert (sum(untrained.loss_mask), untrained.rollout_trainable_tokens) == (0, 0)
    assert [part.masked_because for part in untrained.turns] == ["stale", "stale"]
    rollout = Rollout([session_now(talk.ledger)], Selection(max_staleness=0), frozenset("b"))
    assert [(left.turn, left.because) for left in rollout.excluded(0)] == [(second, "stale")]


def test_a_row_that_ends_in_an_aborted_turn_says_nothing_in_its_place():
    """Its ids are there; an answer was never given."""
    talk = Talk()
    first = talk.take(user("a"))
    lost = talk.take(user("a"), first.message, user("b"), status="aborted")
    (row,) = rows(talk, include_aborted=True)
    assert row.id == lost.id
    assert trained(row) == list(first.completion.ids + lost.completion.ids)
    assert row.messages == [user("a"), first.message, user("b")]


def experts(start: int, length: int, value: int) -> SideArray:
    return SideArray(start, "|u1", (length, 1), bytes([value]) * length)


def test_side_arrays_are_those_of_the_turns():
    """One after the other; what one of the turns lacks is nothing for the row."""
    talk = Talk()
    start = len(talk.renderer.render([user("a")], ()))
    mask = SideArray(0, "<u4", (2,), bytes(8), array("I", [0, 1, 2]))
    held = {"routed_experts": experts(-start, start + 1, 1), "sampling_mask": mask}
    first = talk.take(user("a"), answer=assistant("x"), side_arrays=held)
    (row,) = rows(talk)
    assert row.side_arrays == {name: array.moved(array.start + start) for name, array in held.items()}
    more = len(talk.renderer.bridge([], [], [user("b")], ()) or ())
    talk.take(
        user("a"),
        first.message,
        user("b"),
        answer=assistant("y"),
        side_arrays={"routed_experts": experts(-1 - more, more + 2, 2)},
    )
    (row,) = rows(talk)
    assert row.side_arrays["sampling_mask"] is None
    assert row.side_arrays["routed_experts"].data == bytes([1]) * (start + 1) + bytes([2]) * (more + 2)


def test_a_row_is_made_when_it_is_asked_for():
    """All rows together may be as large as the square of what was said."""
    rollout = Rollout([session_now(forked().ledger)])
    assert len(rollout) == 2
    assert rollout[1] is not rollout[1]
    assert [row.id for row in rollout] == [rollout[0].id, rollout[1].id]
