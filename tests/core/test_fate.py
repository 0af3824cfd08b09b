"""What became of a turn: was it delivered, and did the harness go on without it?"""

import pytest

from gateway.core.fate import Fate, fates
from gateway.core.types import TurnRequest
from tests.core.toy import Talk, assistant, user

TOOLS = ({"type": "function", "function": {"name": "ls"}},)


def dropped(talk):
    """The turns that the harness dropped, by their numbers."""
    fate = fates(talk.ledger)
    return [number for number, turn in enumerate(talk.ledger.turns) if fate(turn).dropped]


def test_the_last_answer_is_not_dropped():
    """Nothing came after it."""
    talk = Talk()
    first = talk.take(user("a"))
    talk.take(user("a"), first.message, user("b"))

    assert dropped(talk) == []


def test_a_sibling_that_was_not_built_on_is_dropped():
    """Of several answers to one prompt the harness kept one."""
    talk = Talk()
    siblings = [talk.take(user("a")) for _ in range(3)]
    assert dropped(talk) == []
    talk.take(user("a"), siblings[1].message, user("b"))

    assert [0, 2] == dropped(talk)


def test_siblings_that_were_asked_for_at_once_are_siblings():
    """Whether or not one of them was recorded before the other was asked for."""
    talk = Talk()
    pending = [talk.ledger.prepare(TurnRequest((user("a"),), model="m")) for _ in range(2)]
    one, two = (talk.finish(each) for each in pending)
    talk.take(user("a"), two.message, user("b"))

    assert one.asked is two.asked
    assert [0] == dropped(talk)


def test_an_answer_that_vanished_from_the_history_is_dropped():
    """A harness that could not read it asks again, with an error message in its place."""
    talk = Talk()
    first = talk.take(user("a"))
    talk.take(user("a"), first.message, user("b"))
    talk.take(user("a"), first.message, user("b"), user("that was malformed"))

    assert [1] == dropped(talk)


def test_an_answer_that_somebody_else_replaced_is_dropped():
    """The harness went on from other words in its place."""
    talk = Talk()
    talk.take(user("a"))
    talk.take(user("a"), assistant("rewritten"), user("b"))

    assert [0] == dropped(talk)


def test_an_answer_to_no_new_message_is_dropped_when_the_harness_says_something_instead():
    """The history ended with our own answer, was sampled on, and then went on without that."""
    talk = Talk()
    first = talk.take(user("a"))
    talk.take(user("a"), first.message)
    assert [] == dropped(talk)
    talk.take(user("a"), first.message, user("b"))

    assert [1] == dropped(talk)


def test_a_partial_answer_is_not_dropped():
    """Its client never had it."""
    talk = Talk()
    talk.take(user("a"), status="aborted")
    again = talk.take(user("a"))
    talk.take(user("a"), again.message, user("b"))

    assert [] == dropped(talk)


def test_a_side_call_drops_nothing():
    """Other tools or instructions make it another lineage."""
    talk = Talk()
    main = talk.take(user("a"), tools=TOOLS)
    talk.take(user("a"))
    talk.take(user("a"), main.message, user("b"), tools=TOOLS)

    assert dropped(talk) == []


def test_two_branches_that_both_go_on_drop_nothing():
    """Both answers were built on."""
    talk = Talk()
    for _ in range(2):
        first = talk.take(user("a"))
        talk.take(user("a"), first.message, user("b"))

    assert dropped(talk) == []


@pytest.mark.parametrize("delivered", [None, True, False])
def test_a_fate_tells_what_is_known_of_the_delivery(delivered):
    """Nothing until something was said."""
    talk = Talk()
    turn = talk.take(user("a"))
    if delivered is not None:
        talk.ledger.deliveries.note(turn, delivered=delivered)

    assert Fate(delivered, False) == fates(talk.ledger)(turn)
