"""A turn stores what it added, and can tell the whole."""

from dataclasses import FrozenInstanceError

import pytest

from gateway.core.turn import Turn
from gateway.core.types import FinishReason
from tests.core.toy import Talk, said, user


def chain(*flaws: bool) -> tuple[Talk, list]:
    """A linear session of one turn and one more for each flag, rendered in full where the flag says so."""
    talk = Talk()
    turns = [talk.take(user("a"))]
    for declines in flaws:
        talk.renderer.declines = declines
        turns.append(talk.take(*talk.ledger.history(turns[-1]), user("b")))
    return talk, turns


def test_the_whole_prompt_is_all_that_its_segment_added():
    """Each turn keeps its own ids only, whatever the length of what stands before them."""
    _, turns = chain(False, False)
    first, second, third = turns

    assert first.prompt_ids() + first.completion.ids == second.prompt_ids()[: first.sequence.length]
    assert second.prompt_ids() + second.completion.ids == third.prompt_ids()[: second.sequence.length]
    assert len(third.prompt_ids()) == third.prompt_length
    assert [own_ids(turn) for turn in turns] == [len(first.prompt_ids()), *[len(said(user("b"))) + 2] * 2]


def own_ids(turn: Turn) -> int:
    """How many prompt ids a turn stores itself, its base's completion left out."""
    sampled = turn.base.completion.ids if turn.base else None
    return sum(len(piece) for piece in turn.prompt.pieces if not isinstance(piece, tuple) and piece is not sampled)


def test_a_turn_reuses_its_base_and_adds_the_rest():
    """What a bridge takes over is counted once; a turn that was rendered takes over nothing."""
    _, turns = chain(False, True)
    first, second, third = turns

    assert [0, first.sequence.length, 0] == [turn.reused_tokens for turn in turns]
    assert first.added_tokens + second.added_tokens == second.sequence.length
    assert third.added_tokens == third.sequence.length


def test_a_segment_begins_at_the_last_full_render():
    """What was rendered anew shares no ids with what was sampled before; the branch goes on."""
    _, turns = chain(False, True, False)
    first, second, third, fourth = turns

    assert [first, second] == second.segment()
    assert [third, fourth] == fourth.segment()
    assert turns == fourth.branch()
    assert fourth.prompt_ids()[: third.prompt_length] == third.prompt_ids()


def test_a_turn_in_a_log_says_nothing_of_what_was_said():
    """However long the chain behind it."""
    _, turns = chain(False, True)

    assert "<Turn t2 rendered complete>" == repr(turns[-1])


def test_a_turn_stands_below_those_that_its_history_leads_through():
    """And below itself, and not below others."""
    talk = Talk()
    first = talk.take(user("a"))
    second = talk.take(user("a"), first.message, user("b"))
    other = talk.take(user("c"))

    assert second.asked.is_below(first.node)
    assert first.node.is_below(first.node)
    assert not other.node.is_below(first.node)


def test_how_a_prompt_was_built_follows_from_its_base():
    """Bridged from a base, or rendered in full."""
    _, turns = chain(False, True)

    assert ["rendered", "bridged", "rendered"] == [turn.how for turn in turns]
    assert [None, turns[0], None] == [turn.base for turn in turns]


@pytest.mark.parametrize(
    ("finish", "status"),
    [
        (FinishReason.STOP, "complete"),
        (FinishReason.LENGTH, "complete"),
        (FinishReason.REPETITION, "complete"),
        (FinishReason.ABORT, "aborted"),
    ],
)
def test_a_turn_is_complete_unless_somebody_ended_it(finish, status):
    """The engine's own ends are all answers; an abort is none."""
    assert status == Talk().take(user("a"), finish=finish).status


def test_a_turn_is_never_edited_and_equal_only_to_itself():
    """Two samplings that came out alike are two turns."""
    talk = Talk()
    one, two = talk.take(user("a")), talk.take(user("a"))

    with pytest.raises(FrozenInstanceError):
        one.flags = ("unparsed",)  # type: ignore[misc]  # which is the claim
    assert one != two
    assert len({one, two}) == 2
