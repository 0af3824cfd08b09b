"""A turn stores what it added, and can tell the whole."""

from dataclasses import FrozenInstanceError

import pytest

from gateway.core.types import FinishReason
from tests.core.toy import Talk, user


def chain(*flaws: bool) -> tuple[Talk, list]:
    """A linear session of one turn and one more for each flag, rendered in full where the flag says so."""
    talk = Talk()
    turns = [talk.take(user("a"))]
    for declines in flaws:
        talk.renderer.declines = declines
        said = [message for turn in turns[-1].branch() for message in (*turn.new_messages, turn.message)]
        turns.append(talk.take(*said, user("b")))
    return talk, turns


def test_the_whole_prompt_is_all_that_its_segment_added():
    """Each turn keeps its own ids only, whatever the length of what stands before them."""
    _, turns = chain(False, False)
    first, second, third = turns

    before = first.prompt_delta + first.completion.ids + second.prompt_delta + second.completion.ids
    assert before + third.prompt_delta == third.prompt_ids()
    assert len(third.prompt_ids()) == third.prompt_length
    assert len(third.prompt_delta) == len(second.prompt_delta)
    assert first.prompt_delta == first.prompt_ids()


def test_a_segment_begins_at_the_last_full_render():
    """What was rendered anew shares no ids with what was sampled before; the branch goes on."""
    _, turns = chain(False, True, False)
    first, second, third, fourth = turns

    assert [first, second] == second.segment()
    assert [third, fourth] == fourth.segment()
    assert turns == fourth.branch()
    assert fourth.prompt_ids()[: third.prompt_length] == third.prompt_ids()


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
        one.flags = ("edited",)  # type: ignore[misc]  # which is the claim
    assert one != two
    assert len({one, two}) == 2
