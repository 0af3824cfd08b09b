"""What the last prompts said, for callers that do not tell it."""

import pytest

from gateway.render.call_style import CallStyle
from gateway.render.protocol import MessageDicts
from gateway.render.recollection import Recollection, answer_of
from tests.render.doubles import Call, Response

ASKED: MessageDicts = [{"role": "user", "content": "Hi"}]
TOOLS: MessageDicts = [{"type": "function", "function": {"name": "look"}}]


def test_a_prompt_is_known_by_its_ids_and_its_tools():
    """No tools are no tools, however that is said."""
    known = Recollection()
    known.put([1, 2], ASKED, None)
    known.put([3], ASKED, TOOLS)

    assert known.get([1, 2], []) == ASKED
    assert known.get([3], [dict(TOOLS[0])]) == ASKED
    assert (known.get([1], None), known.get([1, 2], TOOLS), known.get([3], None)) == (None, None, None)


def test_what_a_caller_does_to_its_messages_later_changes_nothing():
    """Nor to its tools: a prompt was rendered with those that there were then."""
    known, asked, tools = Recollection(), [dict(ASKED[0])], [*TOOLS]
    known.put([1], asked, tools)
    asked[0]["content"] = "changed"
    tools.append(TOOLS[0])

    assert known.get([1], TOOLS) == ASKED
    assert known.get([1], tools) is None


def test_only_the_last_prompts_are_known():
    """The one that was longest not asked for goes first."""
    known = Recollection(2)
    known.put([1], ASKED, None)
    known.put([2], ASKED, None)
    known.get([1], None)
    known.put([3], ASKED, None)

    assert [known.get([one], None) is not None for one in (1, 2, 3)] == [True, False, True]


def test_an_answer_is_a_message_whose_calls_have_the_ids_that_the_results_name():
    """Or the model's own, where there is no result; in the shape that the template takes."""
    calls = [Call("look", {"at": "x"}), Call("look", "{}", id="own")]
    new: MessageDicts = [{"role": "tool", "content": "out", "tool_call_id": "call_1"}]
    answer = answer_of(Response("", "hm", calls), new, CallStyle(None, objects=True))

    assert answer == {
        "role": "assistant",
        "content": None,
        "reasoning_content": "hm",
        "tool_calls": [
            {"id": "call_1", "type": "function", "function": {"name": "look", "arguments": {"at": "x"}}},
            {"id": "own", "type": "function", "function": {"name": "look", "arguments": {}}},
        ],
    }
    assert answer_of(Response("ok"), new, CallStyle()) == {"role": "assistant", "content": "ok"}


def test_a_call_without_sound_arguments_makes_no_message():
    """It was not said as any template would write it."""
    with pytest.raises(ValueError, match="arguments"):
        answer_of(Response("", None, [Call("look", "no JSON")]), [], CallStyle())
