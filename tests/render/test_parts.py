"""Contents in parts, and what of them is text."""

import pytest

from gateway.errors import MultimodalUnsupported
from gateway.render.parts import joined, joined_or_refused, with_text_arguments
from gateway.render.protocol import MessageDict, MessageDicts

TEXTS: MessageDict = {
    "role": "user",
    "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}],
    "name": "n",
}
PLAIN: MessageDicts = [{"role": "user", "content": "x"}, {"role": "assistant", "content": None}, {"role": "assistant"}]


def test_parts_that_are_text_are_joined_and_all_else_is_left():
    """Nothing stands between them, and what was handed in is not changed."""
    assert joined([TEXTS, *PLAIN]) == [{"role": "user", "content": "ab", "name": "n"}, *PLAIN]
    assert joined_or_refused([*PLAIN]) == PLAIN
    assert isinstance(TEXTS["content"], list)


@pytest.mark.parametrize(
    "content",
    [
        [{"type": "image_url", "image_url": {"url": "data:,"}}],
        [{"type": "text", "text": "a"}, {"type": "image", "image": "b"}],
        [{"type": "thinking", "thinking": "hm"}],
        [{"type": "text", "text": 5}],
        ["a"],
        {"type": "text", "text": "a"},
        5,
    ],
)
def test_what_is_no_text_is_told_apart(content):
    """Whatever it is: no renderer is left to drop it."""
    assert joined([{"role": "user", "content": content}]) is None
    with pytest.raises(MultimodalUnsupported) as refused:
        joined_or_refused([{"role": "user", "content": content}])
    assert (refused.value.status, refused.value.code) == (400, "multimodal_unsupported")


@pytest.mark.parametrize(
    ("given", "text"), [({"é": 1}, '{"é": 1}'), ('{"é":1}', '{"é":1}'), ({}, "{}"), ("", "{}"), (None, "{}")]
)
def test_arguments_are_made_json_text(given, text):
    """What is text is left as it was written; nothing is an object without members."""
    function: MessageDict = {"name": "look", "arguments": given}
    assert with_text_arguments(function) == {"name": "look", "arguments": text}
    assert with_text_arguments({"name": "look"})["arguments"] == "{}"
    assert function["arguments"] == given
