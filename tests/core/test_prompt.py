"""Bridge where it is proven, else render and say why."""

import pytest

from gateway.core.types import FinishReason
from tests.core.toy import Talk, assistant, user


def test_a_bridged_prompt_is_the_last_prompt_and_completion_and_the_new_messages():
    """Nothing that was sampled is tokenized again."""
    talk = Talk()
    first = talk.take(user("a"))
    second = talk.take(user("a"), first.message, user("b"))

    known = first.prompt_ids() + first.completion.ids
    assert (second.how, second.reason, second.base) == ("bridged", None, first)
    assert known == second.prompt_ids()[: len(known)]
    assert [[user("b")]] == talk.renderer.bridged


@pytest.mark.parametrize(
    ("flaw", "finish", "reason"),
    [
        ({"drops": 1}, FinishReason.STOP, "bridge_unproven"),
        ({"drops": 99}, FinishReason.STOP, "bridge_unproven"),
        ({"declines": True}, FinishReason.STOP, "bridge_declined"),
        ({"declines": True}, FinishReason.LENGTH, "truncated_parent"),
    ],
)
def test_a_bridge_that_is_not_proven_is_no_bridge(flaw, finish, reason):
    """The whole history is rendered instead, and the turn says why."""
    talk = Talk()
    first = talk.take(user("a"), finish=finish)
    for name, value in flaw.items():
        setattr(talk.renderer, name, value)
    second = talk.take(user("a"), first.message, user("b"))

    assert (second.how, second.reason, second.base, second.parent) == ("rendered", reason, None, first)
    assert [user("a"), first.message, user("b")] == talk.renderer.rendered[-1]


def test_a_bridge_that_adds_nothing_is_no_bridge():
    """A prompt must say something new."""
    talk = Talk()
    first = talk.take(user("a"))
    talk.renderer.silent = True
    second = talk.take(user("a"), first.message, user("b"))

    assert second.reason == "bridge_unproven"


def test_the_first_turn_is_rendered_with_its_tools():
    """There is nothing to bridge from."""
    talk = Talk()
    turn = talk.take(user("a"), tools=({"type": "function"},), answer=assistant("x"))

    assert (turn.how, turn.reason) == ("rendered", "first_turn")
    assert turn.prompt_ids()[0] == 101
