"""How far a history is known: every reading of it, message by message."""

import pytest

from gateway.core.canon import Difference, identity, root_of
from gateway.core.ledger import Ledger
from gateway.core.matching import find
from gateway.core.turn import Replay
from gateway.core.types import ToolCall, TurnRequest
from tests.core.toy import Talk, assistant, tool, user

CALL = ToolCall("call_1", "ls", '{"a": 1}')
RESPELT = ToolCall("call_1", "ls", '{"a":1}')
TOOLS = ({"type": "function", "function": {"name": "ls"}},)


def match(talk, *messages, anywhere=False, policy="canonical"):
    """What is found of a history, of the toy's usual lineage or of any."""
    root = None if anywhere else root_of(TurnRequest(messages, model="m"))
    order = {turn: number for number, turn in enumerate(talk.ledger.turns)}
    return find(talk.ledger.tree, messages, root, policy, order)


def test_the_deepest_answer_of_ours_is_found():
    """After it, nothing is known; before it, all is."""
    talk = Talk()
    first = talk.take(user("a"))
    second = talk.take(user("a"), first.message, user("b"))
    found = match(talk, user("a"), first.message, user("b"), second.message, user("c"), assistant("theirs"))

    assert (found.turn, found.length) == (second, 4)
    assert [(second, 4), (first, 2)] == [(turn, at.length) for turn, at in found.way()]
    assert found.differences() == {}


def test_our_answers_are_recorded_as_they_were_given():
    """Whatever the client made of them; what others said is as the request has it."""
    talk = Talk()
    first = talk.take(user("a"), answer=assistant("x ", reasoning="hm"))
    messages = [user("a"), assistant("x"), user("b"), assistant("theirs")]

    assert [user("a"), first.message, *messages[2:]] == match(talk, *messages).recorded(messages)


def test_a_history_parts_where_somebody_said_something_else():
    """Inside of what was said in one go, and after a message that is known from elsewhere."""
    talk = Talk()
    turn = talk.take(user("a"), user("b"), user("c"))
    other = talk.take(user("d"))

    assert match(talk, user("a"), user("b"), user("c"), turn.message).turn is turn
    for messages in ([user("a"), user("c"), turn.message], [user("a"), user("b"), user("d"), other.message]):
        assert match(talk, *messages).turn is None
    assert match(talk, user("d"), user("a"), other.message).turn is None
    assert match(talk, user("d"), user("new"), other.message).turn is None


@pytest.mark.parametrize("messages", [[], [user("x")], [assistant("answer 0")], [user("a"), assistant("x")]])
def test_nothing_is_found_where_nothing_is_known(messages):
    """Neither at the beginning nor where somebody else answered."""
    talk = Talk()
    talk.take(user("a"))
    found = match(talk, *messages)

    assert (found.turn, found.length, list(found.way())) == (None, 0, [])


def test_differences_say_how_many_answers_and_tokens_they_concern():
    """Over the whole history, each kind by itself."""
    talk = Talk()
    first = talk.take(user("a"), answer=assistant("x ", CALL, reasoning="hm"))
    second = talk.take(user("a"), assistant("x ", CALL), tool("out"), answer=assistant("y", reasoning="hm"))
    found = match(talk, user("a"), assistant("x", RESPELT), tool("out"), assistant("y"), user("b"))
    both = len(first.completion.ids) + len(second.completion.ids)
    only = Difference(1, len(first.completion.ids))

    assert {
        "arguments_reserialised": only,
        "content_whitespace": only,
        "reasoning_dropped": Difference(2, both),
    } == found.differences()
    assert found.kinds == found.differences().keys()


def test_a_replay_that_was_accepted_is_accepted_again_and_another_is_looked_at_anew():
    """Remembering how a client spells an answer changes no result."""
    talk = Talk()
    talk.take(user("a"), answer=assistant("x ", CALL))
    talk.take(user("a"), assistant("x", RESPELT), tool("out"))

    assert {"content_whitespace", "arguments_reserialised"} == match(talk, user("a"), assistant("x", RESPELT)).kinds
    assert match(talk, user("a"), assistant("x ", CALL)).kinds == set()
    assert {"content_whitespace"} == match(talk, user("a"), assistant("x", CALL)).kinds
    assert match(talk, user("a"), assistant("z", CALL)).turn is None


def test_a_replay_that_changes_later_is_known_from_then_on():
    """A client that sends reasoning with the last answer only spells each of them in two ways."""
    talk = Talk()
    first = talk.take(user("a"), answer=assistant("x ", CALL, reasoning="hm"))
    second = talk.take(user("a"), assistant("x", CALL, reasoning="hm"), tool("out"))
    asked = [user("a"), assistant("x", CALL), tool("out"), second.message, user("b")]
    assert [at.fresh for _, at in match(talk, *asked).way()] == [False, True]
    talk.take(*asked)

    assert [at.fresh for _, at in match(talk, *asked).way()] == [False, False]
    assert Replay(identity(asked[1]), ("content_whitespace", "reasoning_dropped")) == first.node.replay


def test_a_choice_among_equal_answers_is_no_part_of_how_the_chosen_one_is_replayed():
    """Once it was gone on from, its siblings are as good as ever."""
    talk = Talk()
    talk.take(user("a"), answer=assistant("x "))
    later = talk.take(user("a"), answer=assistant("x "))
    talk.take(user("a"), assistant("x"), user("b"))
    found = match(talk, user("a"), assistant("x"))

    assert (found.turn, found.kinds) == (later, {"content_whitespace"})
    assert {"ambiguous_sibling", "content_whitespace"} == found.differences().keys()


def test_lineages_are_kept_apart_unless_all_are_asked():
    """What stands above the messages is rendered before them, but the history is the same."""
    talk = Talk()
    turn = talk.take(user("a"), tools=TOOLS)

    assert match(talk, user("a"), turn.message).turn is None
    assert match(talk, user("a"), turn.message, anywhere=True).turn is turn


def test_among_equal_answers_the_most_exact_and_then_the_latest_is_preferred():
    """The choice among the equal is audited."""
    talk = Talk()
    exact, spaced, later = (talk.take(user("a"), answer=assistant(text)) for text in ("x", "x ", "x "))

    assert match(talk, user("a"), assistant("x")).turn is exact
    found = match(talk, user("a"), assistant("x "))
    assert (found.turn, found.ambiguous, found.kinds) == (later, True, set())
    assert {"ambiguous_sibling": Difference(1, len(spaced.completion.ids))} == found.differences()


def test_two_calls_that_said_the_same_at_once_are_both_found():
    """Each brought the message; whoever goes on from it may mean either."""
    ledger = Ledger()
    talks = [Talk(ledger), Talk(ledger)]
    pending = [ledger.prepare(TurnRequest((user("a"), user("b")), model="m")) for _ in talks]
    turns = [talk.finish(each) for talk, each in zip(talks, pending, strict=True)]
    found = [match(talks[0], user("a"), user("b"), turn.message).turn for turn in turns]

    assert turns == found


def test_calls_tell_siblings_apart_even_where_they_are_ignored():
    """What the client called is the one whose id came back, however its arguments are spelt."""
    talk = Talk(Ledger("role_content"))
    talk.take(user("a"), answer=assistant("", CALL))
    talk.take(user("a"), answer=assistant("", ToolCall("call_2", "rm", "{}")))
    found = match(talk, user("a"), assistant("", RESPELT), policy="role_content")

    assert (found.turn, found.kinds) == (talk.ledger.turns[0], {"arguments_reserialised"})


def test_an_answer_that_only_dropped_reasoning_tells_apart_may_be_meant_as_well():
    """Most clients drop it always, so the exact one is a guess, and audited."""
    talk = Talk()
    exact = talk.take(user("a"), answer=assistant("4"))
    talk.take(user("a"), answer=assistant("4", reasoning="let me add"))
    found = match(talk, user("a"), assistant("4"))

    assert (found.turn, found.kinds, found.ambiguous) == (exact, set(), True)


def test_the_policy_is_the_callers():
    """Strict knows no differences, role_content no calls."""
    talk = Talk()
    turn = talk.take(user("a"), answer=assistant("x ", CALL))

    assert match(talk, user("a"), assistant("x", CALL), policy="strict").turn is None
    assert match(talk, user("a"), assistant("x"), policy="role_content").turn is turn
