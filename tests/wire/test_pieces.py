"""What an answer says, cut to be sent and joined again."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.core.types import Delta, ToolCall
from gateway.wire.pieces import PIECE_CHARS, Piece, joined, pieces

CALL = ToolCall("call_1", "look", '{"a": 1}')
LONG = "x" * PIECE_CHARS + "y"


def said(*told: Delta) -> list[Piece]:
    """The pieces of what the second choice was told when five of its ids had been read."""
    return list(pieces(1, told, 5))


@pytest.mark.parametrize(
    ("delta", "expected"),
    [
        (Delta(content="hi"), [Piece(1, "content", "hi", 5)]),
        (Delta(reasoning="so"), [Piece(1, "reasoning", "so", 5)]),
        (Delta(call=CALL), [Piece(1, "call", '{"a": 1}', 5, CALL)]),
        (Delta("so", "hi"), [Piece(1, "reasoning", "so", 5), Piece(1, "content", "hi", 5)]),
        (Delta(), []),
    ],
)
def test_each_part_of_a_delta_is_a_piece(delta, expected):
    """Reasoning before content, a call with its arguments."""
    assert said(delta) == expected


@pytest.mark.parametrize("kind", ["reasoning", "content"])
def test_long_text_is_said_in_several_pieces(kind):
    """None is longer than fits a write."""
    delta = Delta(reasoning=LONG) if kind == "reasoning" else Delta(content=LONG)
    assert said(delta) == [Piece(1, kind, "x" * PIECE_CHARS, 5), Piece(1, kind, "y", 5)]


def test_long_arguments_go_on_after_their_call():
    """Its id and name are said once."""
    call = ToolCall("call_1", "look", LONG)
    assert said(Delta(call=call)) == [Piece(1, "call", "x" * PIECE_CHARS, 5, call), Piece(1, "arguments", "y", 5)]


def test_a_call_without_arguments_is_a_piece():
    """Its name is what it says."""
    call = ToolCall("call_1", "look", "")
    assert said(Delta(call=call)) == [Piece(1, "call", "", 5, call)]


def test_neighbours_of_one_kind_are_one():
    """With what the last of them knows of the ids."""
    told = [Piece(0, "content", "a", 1), Piece(0, "content", "b", 2)]
    assert joined(told) == [Piece(0, "content", "ab", 2)]
    assert joined([]) == []


@pytest.mark.parametrize(
    "told",
    [
        [Piece(0, "content", "a", 1), Piece(1, "content", "b", 1)],
        [Piece(0, "reasoning", "a", 1), Piece(0, "content", "b", 2)],
        [Piece(0, "call", "{}", 1, CALL), Piece(0, "call", "{}", 2, CALL)],
        [Piece(0, "call", "{", 1, CALL), Piece(0, "arguments", "}", 2)],
        [Piece(0, "content", "x" * PIECE_CHARS, 1), Piece(0, "content", "y", 1)],
    ],
    ids=["another choice", "another kind", "two calls", "a call and its arguments", "too long"],
)
def test_others_stay_apart(told):
    """Nothing is said in another's name, nor at too great a length."""
    assert joined(told) == told


@given(st.lists(st.tuples(st.sampled_from([0, 1]), st.sampled_from(["reasoning", "content"]), st.text(max_size=3))))
def test_joining_changes_nothing_that_is_said(told):
    """Of each choice, in its order."""
    one = [Piece(index, kind, text, at) for at, (index, kind, text) in enumerate(told) if text]
    for index in (0, 1):
        for kind in ("reasoning", "content"):
            texts = ["".join(p.text for p in some if (p.index, p.kind) == (index, kind)) for some in (one, joined(one))]
            assert texts[0] == texts[1]
