"""What tells turns apart, and what stands in for answers."""

import json
from typing import Any

import pytest

from gateway.render.protocol import MessageDict, MessageDicts
from gateway.render.shape import MARKS, frames, marks_in, mirror, renewed, shape_of, without_reasoning

USER: MessageDict = {"role": "user", "content": "Hi"}
TOOLS: MessageDicts = [{"type": "function", "function": {"name": "look"}}]


def answer(text="", thought=None, arguments=None):
    calls = [{"id": "c1", "type": "function", "function": {"name": "look", "arguments": arguments}}]
    parts = {"reasoning_content": thought, "tool_calls": calls if arguments is not None else None}
    return {"role": "assistant", "content": text, **{key: value for key, value in parts.items() if value}}


def result(call_id="c1"):
    return {"role": "tool", "content": "out", "tool_call_id": call_id}


def shape(history=None, new=(USER,), tools=None, close=7):
    return shape_of(history or [USER, answer("Hi.")], list(new), tools, close)


def test_turns_that_say_other_things_in_the_same_way_have_one_shape():
    """Texts, and the results' ids."""
    other = [{"role": "user", "content": "What?"}, answer("Ho.")]
    assert shape() == shape(other, [{"role": "user", "content": "So?"}])


@pytest.mark.parametrize(
    "other",
    [
        {"history": [{"role": "system", "content": "x"}, answer("Hi.")]},
        {"history": [USER, answer("Hi.", thought="hm")]},
        {"history": [USER, answer()]},
        {"history": [USER, answer("Hi.", arguments="{}")]},
        {"history": [USER, USER, answer("Hi.")]},
        {"new": [USER, USER]},
        {"new": [result()]},
        {"tools": TOOLS},
        {"close": 8},
    ],
)
def test_turns_that_differ_in_what_a_template_looks_at_have_other_shapes(other):
    """Roles, tools, what the answer has, where it stands, how it was closed."""
    assert shape(**other) != shape()


def test_it_counts_whether_thoughts_stand_before_the_last_word_of_a_user_or_behind_it():
    """There templates begin to leave them out."""
    call, thought = answer(arguments="{}"), answer("", "hm", "{}")
    early, late = (
        [USER, one, result(), USER, other, result(), answer("Hi.")] for one, other in ((thought, call), (call, thought))
    )
    assert shape(early) != shape(late)


def test_positions_are_told_apart_one_by_one_at_first_and_by_powers_of_two_later():
    """So that a long conversation is not proven anew each turn."""
    lengths = [2, 4, 16, 18, 32, 34, 64]
    positions = [shape([*[USER] * (length - 1), answer("Hi.")]).position for length in lengths]

    assert positions == [2, 4, 16, 32, 32, 64, 64]


def test_marks_differ_in_length_and_at_both_ends():
    """So that a template that looks at any of these shows it."""
    one, other = MARKS
    assert len({len(one), len(other)} | {one[0], other[0]} | {one[-1], other[-1]}) == 6


@pytest.mark.parametrize("arguments", ['{"at": 1, "of": {"x": []}}', {"at": 1, "of": {"x": []}}])
def test_a_mirror_has_the_same_parts_and_says_marks_in_all_of_them(arguments):
    """The same calls with the same keys, as text or as an object."""
    mirrored: dict[str, Any] = mirror(answer("text", "thought", arguments), "ab")
    given = mirrored["tool_calls"][0]["function"]["arguments"]

    assert type(given) is type(arguments)
    assert (json.loads(given) if isinstance(given, str) else given) == {"at": "avalue0b", "of": "avalue1b"}
    assert (mirrored["content"], mirrored["reasoning_content"]) == ("ab", "athoughtb")
    assert marks_in(mirrored) == ["athoughtb", "ab", "avalue0b", "avalue1b"]


def test_a_mirror_says_something_even_of_an_answer_that_says_nothing():
    """Or two of them could not be told apart."""
    assert mirror(answer(), "ab")["content"] == "ab"
    calling: dict[str, Any] = mirror(answer(arguments="{}"), "ab")
    assert calling["tool_calls"][0]["function"]["arguments"] == '{"x": "avalue0b"}'
    assert marks_in(mirror(answer(), "ab")) == ["ab"]


def test_a_mirror_in_full_is_as_long_as_what_it_stands_for():
    """Templates may cut that."""
    given = answer("text" * 50, "thought" * 50, json.dumps({"at": "x" * 300, "of": [1] * 99}))
    lengths = [len(mark) for mark in marks_in(mirror(given, "ab", in_full=True))]

    assert all(found >= least for found, least in zip(lengths, (350, 200, 300, 297), strict=True))


@pytest.mark.parametrize("arguments", ["[1]", "no JSON", [1]])
def test_a_call_whose_arguments_are_no_object_has_no_mirror(arguments):
    """No template could be asked what it makes of another one like it."""
    with pytest.raises(ValueError, match=r"JSON|Expecting"):
        mirror(answer(arguments=arguments), "ab")


def test_frames_end_in_an_answer_and_hold_calls_only_where_the_history_does():
    """The likeliest first: one that is as the answer was."""
    plain = frames([USER, answer("Hi.")], [USER])
    after = frames([USER, answer(arguments="{}"), result(), answer("Hi.", "hm")], [result("c2"), result("c3")])

    assert [len(frame("ab")) for frame in plain] == [2, 2, 2]
    assert [len(frame("ab")) for frame in after] == [2, 2, 2, 4, 4, 4]
    assert after[0]("ab")[-1] == mirror(answer("Hi.", "hm"), "ab")
    calling: dict[str, Any] = after[2]("ab")[-1]
    assert [call["id"] for call in calling["tool_calls"]] == ["c2", "c3"]
    assert after[3]("ab")[2] == {**result(), "content": "no"}


def test_other_texts_are_others():
    """Whatever they were."""
    new = [result(), {"role": "user", "content": "no"}]
    assert all(one["content"] != other["content"] for one, other in zip(new, renewed(new), strict=True))
    assert without_reasoning([answer("Hi.", "hm")]) == [answer("Hi.")]
