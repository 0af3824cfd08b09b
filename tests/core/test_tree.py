"""The histories of a session as one tree: each is found again, and what begins alike is kept once."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.core.canon import identity
from gateway.core.rope import Rope
from gateway.core.tree import Tree
from tests.core.toy import Talk, assistant, user

TURN = Talk().take(user("a"))


def messages(text):
    """A message for each character; some are an assistant's."""
    return [assistant(letter) if letter in "xyz" else user(letter) for letter in text]


def linked(tree, text, like=None):
    """A history that somebody brought."""
    return tree.link(tree.origin, messages(text), TURN, like)


@given(st.lists(st.text("abx", max_size=12), max_size=12))
def test_every_history_is_found_again_whatever_else_was_said(texts):
    """Through all that was split for the others."""
    tree = Tree()
    ends = {text: linked(tree, text) for text in texts}

    for text, end in ends.items():
        assert messages(text) == tree.path(end)
        assert linked(tree, text) is end
        steps = list(tree.follow(tree.origin, messages(text)))
        assert len(steps) == len(text)
        assert [(end, True)] == steps[-1:] or not text
    for text in texts:
        for other in texts:
            common = next((i for i, (a, b) in enumerate(zip(text, other, strict=False)) if a != b), None)
            known = list(tree.follow(tree.origin, messages(text[: common or 0] + "?")))
            assert len(known) == (common or 0)


def test_what_begins_alike_is_kept_once():
    """The common part is one node above both."""
    tree = Tree()
    one, two = linked(tree, "abcd"), linked(tree, "abef")

    assert one.parent is two.parent
    assert messages("ab") == tree.path(one.parent)
    assert (one.is_below(one.parent), one.is_below(two), tree.origin.is_below(tree.origin)) == (True, False, True)
    assert len(tree.messages) == 6


def test_a_history_that_ends_inside_another_parts_it():
    """The longer one goes on below."""
    tree = Tree()
    long, short = linked(tree, "abcd"), linked(tree, "ab")

    assert long.parent is short
    assert [(short, False), (short, True), (long, False), (long, True)] == list(
        tree.follow(tree.origin, messages("abcd"))
    )
    assert [(short, False)] == list(tree.follow(tree.origin, messages("ad")))


def test_what_was_never_said_has_no_number():
    """Asking changes nothing."""
    tree = Tree()
    linked(tree, "a")

    assert tree.numbers == {identity(user("a")): 0}
    assert list(tree.follow(tree.origin, messages("ba"))) == []
    assert len(list(tree.follow(tree.origin, messages("aa")))) == 1
    assert len(tree.messages) == 1


def test_a_run_that_is_parted_again_and_again_stays_as_deep_as_it_was():
    """Asked at ever shorter beginnings of one long history, say."""
    tree, text = Tree(), "".join(chr(0x4E00 + i) for i in range(400))
    long = linked(tree, text)
    for length in range(399, 100, -1):
        linked(tree, text[:length])

    assert messages(text) == tree.path(long)
    node = long
    while node is not tree.origin:
        assert not isinstance(node.run, Rope) or node.run.base is None
        node = node.parent


@pytest.mark.parametrize("seed", range(20))
def test_long_histories_that_are_mostly_alike_cost_what_differs(seed):
    """Each is stored as its difference from the one that the turn before brought, and still found and parted."""
    rng, talk = Random(seed), Talk()
    history = [user(f"{number}") for number in range(300)]
    asked = []
    for number in range(8):
        history[rng.randrange(0, 20)] = user(f"changed {number}")
        history.append(user(f"new {number}"))
        asked.append(list(history))
        talk.take(*history)
    for number, (turn, said) in enumerate(zip(talk.ledger.turns, asked, strict=True)):
        assert [*said, turn.message] == talk.ledger.history(turn)
        assert number == 0 or isinstance(turn.asked.run, Rope)
    cut = asked[-1][:150]
    short = talk.take(*cut)
    assert [*cut, short.message] == talk.ledger.history(short)
    assert [*asked[-1], talk.ledger.turns[7].message] == talk.ledger.history(talk.ledger.turns[7])
