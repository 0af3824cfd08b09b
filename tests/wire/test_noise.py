"""Noise: what is left out of a request, and what only looks like it."""

import pytest

from gateway.wire.noise import USUAL, Noise

HEADER = "x-anthropic-billing-header: cc_version=2.1.197.c40; cc_entrypoint=cli;"
CACHED = {"cache_control": {"type": "ephemeral"}}


def test_a_part_that_begins_as_noise_goes_as_a_whole():
    """The client said where it ends; the parts around it stay."""
    assert USUAL.silenced(["You ", f"{HEADER}\nand more", "help."]) == "You help."


def test_of_one_text_the_lines_of_noise_at_its_head_go_and_the_instructions_stay():
    """Clients that join blocks must not lose their system prompt with the first of them."""
    assert USUAL.silenced(f"{HEADER}\n{HEADER}\n\nYou help.\n") == "You help.\n"


@pytest.mark.parametrize("said", [HEADER, f"{HEADER}\n", [HEADER], [HEADER, HEADER]])
def test_noise_alone_says_nothing(said):
    """Whichever way it is written."""
    assert USUAL.silenced(said) == ""


@pytest.mark.parametrize("text", ["", "You help.", f"The header is\n{HEADER}", f" {HEADER}", HEADER.upper()])
def test_what_does_not_begin_as_noise_stays_as_it_is(text):
    """To the letter."""
    assert USUAL.silenced(text) == text
    assert USUAL.silenced([text]) == text


def test_a_tool_loses_noise_beside_and_in_its_function_but_not_in_its_schema():
    """A parameter may be called like it: that name is the agent's own."""
    schema = {"type": "object", "properties": {"cache_control": {"type": "string"}}, "required": ["cache_control"]}
    function = {"name": "set_header", "parameters": schema}

    noisy = {"type": "function", "function": {**function, **CACHED}, **CACHED}
    assert USUAL.tool(noisy) == {"type": "function", "function": function}
    assert USUAL.tool({"type": "web_search", **CACHED}) == {"type": "web_search"}


def test_a_tool_keeps_its_order():
    """Templates write tools down as they come."""
    assert list(USUAL.tool({"b": 1, **CACHED, "function": {"z": 1, **CACHED, "y": 2}, "a": 2})) == [
        "b",
        "function",
        "a",
    ]
    assert list(USUAL.tool({"function": {"z": 1, **CACHED, "y": 2}})["function"]) == ["z", "y"]  # type: ignore[call-overload]  # it is a dictionary


def test_the_lists_are_the_operators():
    """Nothing is noise when they are empty, and what they name is."""
    silent, strict = Noise((), ()), Noise(("Today is",), ("strict", "function"))

    assert silent.silenced(HEADER) == HEADER
    assert silent.silenced([HEADER]) == HEADER
    assert silent.tool(CACHED) == CACHED
    assert strict.silenced("Today is Monday.\nYou help.") == "You help."
    assert strict.silenced(HEADER) == HEADER
    assert strict.tool({"function": {}, "strict": True, **CACHED}) == CACHED
