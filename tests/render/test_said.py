"""What an answer says is found part by part; what else is written must have been sampled."""

import pytest

from gateway.render.said import around, parts_of, says_all
from gateway.render.thoughts import unthought


def calling(name, arguments, **more):
    return {"role": "assistant", "tool_calls": [{"function": {"name": name, "arguments": arguments}}], **more}


@pytest.mark.parametrize(
    "arguments", ['{"at": {"x": [1, true, null, "a\\nb é"]}}', {"at": {"x": [1, True, None, "a\nb é"]}}]
)
@pytest.mark.parametrize(
    "written",
    [
        '{"at": {"x": [1, true, null, "a\\nb é"]}}',
        '{"at":{"x":[1,true,null,"a\\nb \\u00e9"]}}',
        "at=<x>1True None\na\nb é</x>",
    ],
)
def test_the_parts_of_a_call_are_found_however_a_template_spells_them(arguments, written):
    """As JSON with letters escaped or not, or each value by itself."""
    assert around(
        f"hm, so: call look {written}.", parts_of(calling("look", arguments, reasoning_content=" hm ", content="so:\n"))
    )


@pytest.mark.parametrize("written", ["a b", "b", "ab c", "b a c", "a b C"])
def test_a_text_that_leaves_out_rewrites_or_turns_around_a_part_does_not_say_it(written):
    """Nor one that changes white space within."""
    assert around(written, [("a b",), ("c",)]) is None


def test_what_stands_around_the_parts_must_have_been_sampled_but_for_white_space():
    """Empty parts say nothing."""
    pieces = around("<call>look {at: x}</call>", parts_of(calling("look", {"at": "x", "": ""}, content="")))

    assert pieces == ["<call>", " {", ": ", "}</call>"]
    assert says_all("<call>\n look{ at:x }\n</call>", pieces)
    assert not says_all("<call>look(at: x)</call>", pieces)


def test_arguments_that_are_no_json_have_no_parts():
    """It is not known what a template makes of them."""
    with pytest.raises(ValueError, match="Expecting"):
        parts_of(calling("look", "no JSON"))


@pytest.mark.parametrize(
    ("said", "thought", "rest"),
    [
        ("<think>\nhm\n</think>\n\nhi", "hm", "\n\nhi"),
        ("hm\n</think>\n\nhi", "hm", "\n\nhi"),
        ("<think>\n\n</think>\n\nhi", None, "hi"),
        ("\n</think>\n\nhi", None, "\n\nhi"),
        ("hi", None, "hi"),
    ],
)
def test_what_was_said_behind_a_thought_is_found(said, thought, rest):
    """Whoever opened it; of one that says nothing, no message tells."""
    assert unthought(said, thought) == rest
