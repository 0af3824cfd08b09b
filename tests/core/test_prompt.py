"""Bridge where it is proven, else render and say why."""

from dataclasses import replace

import pytest

from gateway.core.prompt import build_prompt
from gateway.core.types import FinishReason, Message, ToolCall, TurnRequest
from tests.core.toy import Talk, ToyRenderer, assistant, tool, user


def test_a_bridged_prompt_is_the_last_prompt_and_completion_and_the_new_messages():
    """Nothing that was sampled is tokenized again."""
    talk = Talk()
    first = talk.take(user("a"))
    second = talk.take(user("a"), first.message, user("b"))

    known = first.prompt_ids() + first.completion.ids
    assert (second.how, second.reason, second.base) == ("bridged", None, first)
    assert known == second.prompt_ids()[: len(known)]
    assert [[user("b")]] == talk.renderer.bridged
    assert [[user("a"), first.message]] == talk.renderer.histories


def test_a_bridge_is_told_the_history_as_it_was_recorded_and_in_the_models_own_words():
    """With what stands above it, and with the ids that the model wrote for its calls."""
    talk, above = Talk(), Message("system", "be brief")
    answer = assistant("x", ToolCall("call_1", "look", "{}", own_id="look:0"), reasoning="hm")
    talk.take(above, user("a"), answer=answer)
    talk.take(above, user("a"), replace(answer, content=" x ", reasoning=None), tool("out"))

    (history,) = talk.renderer.histories
    own = replace(answer, tool_calls=(replace(answer.tool_calls[0], id="look:0"),))
    assert history == [above, user("a"), own]
    assert talk.renderer.bridged[-1][0].tool_call_id == "look:0"


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


class Approximate(ToyRenderer):
    """Its bridges are equal to what is known, and are none of it."""

    def bridge(self, *arguments):
        ids = super().bridge(*arguments) or []
        return [float(token_id) if nth < 3 else token_id for nth, token_id in enumerate(ids)]


def test_a_bridged_prompt_has_the_ids_that_are_known_and_not_what_is_only_equal_to_them():
    """A number that is no integer would stand in the engine's request."""
    talk = Talk(renderer=Approximate())
    first = talk.take(user("a"))
    pending = talk.ledger.prepare(TurnRequest((user("a"), first.message, user("b")), model="m"))

    prompt = build_prompt(talk.renderer, pending)

    assert prompt.base is first
    assert {type(token_id) for token_id in prompt.ids} == {int}
    assert prompt.ids == prompt.stored.ids().tolist()


def test_the_first_turn_is_rendered_with_its_tools():
    """There is nothing to bridge from."""
    talk = Talk()
    turn = talk.take(user("a"), tools=({"type": "function"},), answer=assistant("x"))

    assert (turn.how, turn.reason) == ("rendered", "first_turn")
    assert turn.prompt_ids()[0] == 101
