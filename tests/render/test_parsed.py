"""Pieces of text that lose their edges, and the message they make."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.render.call_bodies import Call
from gateway.render.parsed import Delta, Message, Parsed, Piece

EDGES = [(None, None), ("", "\n"), ("\n\n", "\n"), ("\n", "\n")]


def expected(text, left, right, *, cut):
    if left is None:
        return text.strip()
    text = text.removeprefix(left)
    return text.removesuffix(right) if cut else text


@given(st.lists(st.text(" \na", max_size=3), max_size=6), st.sampled_from(EDGES), st.booleans())
def test_a_piece_loses_its_edges_however_it_is_cut(texts, edges, cut):
    """What it tells while it grows is never taken back."""
    piece = Piece(*edges)
    told = "".join(map(piece.add, texts))

    assert told + piece.end(cut=cut) == expected("".join(texts), *edges, cut=cut)


@pytest.mark.parametrize(
    ("edges", "texts", "told"),
    [
        ((None, None), [" \n", "a ", " ", "b"], ["", "a", "", "  b"]),
        (("", "\n"), ["\n", "\n", "a"], ["", "\n", "\na"]),
        (("\n\n", "\n"), ["\n", " "], ["", "\n "]),
        (("\n\n", "\n"), ["\n", "\n", "\n", "a"], ["", "", "", "\na"]),
    ],
)
def test_a_piece_tells_what_is_certain_at_once(edges, texts, told):
    """It holds what may be an edge, and no more."""
    piece = Piece(*edges)
    assert [piece.add(text) for text in texts] == told


def test_a_message_joins_its_pieces_and_tells_each_kind_in_a_delta():
    """In the order in which they were said; empty pieces leave no trace."""
    message, call = Message(), Call("f", "{}")
    message.think("")
    message.think("a")
    message.think("b")
    message.next_piece()
    message.say("c")
    message.next_piece()
    message.next_piece()
    message.say("d")
    message.call(call)
    message.call(call)
    message.say("e")
    message.flag("odd")
    message.flag("odd")

    assert message.take() == [
        Delta(reasoning_content="ab"),
        Delta(content="c\nd"),
        Delta(tool_calls=(call, call)),
        Delta(content="e"),
    ]
    assert message.take() == []
    assert message.whole() == Parsed("c\nde", "ab", (call, call), ("odd",))


def test_a_thought_without_a_word_is_told_from_none():
    """Though neither makes a delta."""
    thoughtless, thoughtful = Message(), Message()
    thoughtful.think("")
    assert (thoughtless.whole(), thoughtful.whole()) == (Parsed("", None, ()), Parsed("", "", ()))
    assert thoughtful.take() == []
