"""Whatever a renderer returns, the other rooms meet ids and messages, or an error."""

import itertools
import math
from typing import Any

import numpy as np
import pytest

from gateway.core.types import Message, ToolCall
from gateway.errors import RendererError
from gateway.render.translator import Translator
from tests.render.doubles import Call, Holder, PlainRenderer, PlainTokenizer, Response, read

TOOLS = ({"type": "function", "function": {"name": "bash"}},)


def parse(response, text="raw text"):
    counter = itertools.count()
    translator = Translator(PlainRenderer(response), PlainTokenizer())
    return read(translator, [ord(c) for c in text] + [0], [1], (), lambda: f"call_{next(counter)}")


def test_messages_reach_the_renderer_as_openai_dictionaries():
    """Own ids, an object for empty arguments, reasoning under the name renderers read."""
    renderer = PlainRenderer()
    calls = (ToolCall("call_1", "bash", "", own_id="bash:0"), ToolCall("call_2", "bash", '{"a":1}'))
    messages = [
        Message("user", "hi", name="ada"),
        Message("assistant", "", reasoning="hm", tool_calls=calls),
        Message("tool", "out", tool_call_id="bash:0"),
    ]
    Translator(renderer, PlainTokenizer()).render(messages, TOOLS)
    (seen, tools, opening) = renderer.seen[-1]

    assert opening
    assert [dict(TOOLS[0])] == tools
    assert {"role": "user", "content": "hi", "name": "ada"} == seen[0]
    assert seen[1] == {
        "role": "assistant",
        "content": "",
        "reasoning_content": "hm",
        "tool_calls": [
            {"id": "bash:0", "type": "function", "function": {"name": "bash", "arguments": "{}"}},
            {"id": "call_2", "type": "function", "function": {"name": "bash", "arguments": '{"a":1}'}},
        ],
    }
    assert {"role": "tool", "content": "out", "tool_call_id": "bash:0"} == seen[2]


def test_a_bridge_may_return_an_object_with_token_ids():
    """Both shapes of the contract are plain ids here; declining stays declining."""
    bridged, declined = (
        Translator(PlainRenderer(bridges=bridges), PlainTokenizer()).bridge([1], [2], [Message("user", "x")], (), ())
        for bridges in (True, False)
    )

    assert bridged == [1, 2, 9]
    assert declined is None


def test_a_bridge_that_takes_the_history_is_given_it():
    """As dictionaries, up to and with the answer."""

    class Curious(PlainRenderer):
        def bridge_to_next_turn(self, prompt, completion, new, *, tools=None, history=None):
            self.seen.append(history)

    renderer = Curious()
    history = [Message("user", "x"), Message("assistant", "y", reasoning="hm")]
    Translator(renderer, PlainTokenizer()).bridge([1], [2], [Message("user", "z")], (), history)

    said = {"role": "assistant", "content": "y", "reasoning_content": "hm"}
    assert [[{"role": "user", "content": "x"}, said]] == renderer.seen


def test_good_calls_reach_the_client_with_minted_ids_and_strict_json():
    """The model's own id is kept beside the minted one."""
    parsed = parse(
        Response("text", "why", [Call("f", {"é": 1}, id="f:0"), Call("g", '{"a": 2}', status="unknown_tool")])
    )

    assert parsed.flags == ()
    assert (parsed.message.content, parsed.message.reasoning) == ("text", "why")
    assert parsed.message.tool_calls == (
        ToolCall("call_0", "f", '{"é": 1}', "f:0"),
        ToolCall("call_1", "g", '{"a": 2}', None),
    )


@pytest.mark.parametrize(
    "call",
    [
        Call("f", {"a": math.nan}),
        Call("f", {"a": math.inf}),
        Call("f", {"a": "\ud800"}),
        Call("f", '{"a": NaN}'),
        Call("f", None),
        Call("f", [1]),
        Call("f", "plain"),
        Call("f", '"text"'),
        Call("f", {"a": object()}),
        Call("", {}),
        Call(None, {}),
        Call(5, {}),  # type: ignore[arg-type]  # as a model might write it
        Call("f", {}, status="invalid_json"),
        Call("f", {}, status="unclosed_block"),
    ],
)
def test_whatever_else_was_written_as_a_call_is_delivered_as_text_and_flagged(call):
    """The agent sees what the model wrote, and never an empty answer."""
    call.raw = "<broken>"
    parsed = parse(Response("before", tool_calls=[Call("ok", {}), call]))

    assert parsed.flags == ("malformed_tool_call",)
    assert parsed.message.content == "before\n<broken>"
    assert ["ok"] == [c.name for c in parsed.message.tool_calls]


def test_a_broken_call_shows_its_own_tokens_where_the_span_is_known():
    """Markers included, as the model wrote them."""
    parsed = parse(Response("", tool_calls=[Call(status="unclosed_block", raw="x", token_span=(0, 3))]), "raw text")

    assert parsed.message.content == "raw"


def test_an_answer_that_parses_to_nothing_is_delivered_as_its_text():
    """Only an answer that was sampled empty is empty."""
    assert parse(Response(None)).message.content == "raw text"
    assert parse(Response("")).flags == ("unparsed",)
    assert parse(Response(""), "").flags == ()
    assert parse(Response("", "thought")).message.content == ""


def test_tools_and_prompt_are_passed_to_a_parser_that_takes_them():
    """Optional arguments of the contract."""

    class Curious(PlainRenderer):
        def parse_response(self, token_ids, *, tools=None, prompt_ids=None):
            self.seen.append((token_ids, tools, prompt_ids))
            return Response("x")

    renderer = Curious()
    read(Translator(renderer, PlainTokenizer()), [5], [1], TOOLS, str)

    assert [([5], [dict(TOOLS[0])], [1])] == renderer.seen


@pytest.mark.parametrize("result", [None, 5, "text", b"text", [], Holder(["x"]), [1, -1], [1.5], [1 << 40]])  # type: ignore[list-item]  # no ids
def test_a_result_that_is_no_list_of_ids_is_the_renderers_fault(result):
    """Refused here, so that nothing else has to ask."""

    class Odd(PlainRenderer):
        def render_ids(self, messages, *, tools=None, add_generation_prompt=False):
            return result

    with pytest.raises(RendererError):
        Translator(Odd(), PlainTokenizer()).render([Message("user", "x")], ())


@pytest.mark.parametrize("ids", [[1, 2, -1], [1, 2, None], [1, 2, 3.5], (1, 2, "9"), "129", []])
def test_a_bridge_to_what_is_no_id_is_the_renderers_fault(ids):
    """All that comes behind the ids that are known is looked at."""

    class Odd(PlainRenderer):
        def bridge_to_next_turn(self, prompt, completion, new, *, tools=None):
            return Holder(ids)

    with pytest.raises(RendererError):
        Translator(Odd(), PlainTokenizer()).bridge([1], [2], [Message("user", "x")], (), ())


def test_a_renderer_that_raises_is_named_as_the_cause():
    """Its own exception is chained."""

    class Broken(PlainRenderer):
        def parse_response(self, token_ids):
            raise KeyError("vocab")

    with pytest.raises(RendererError, match="KeyError") as caught:
        read(Translator(Broken(), PlainTokenizer()), [5], [1], (), str)
    assert isinstance(caught.value.__cause__, KeyError)


def test_numbers_of_another_library_become_plain_ids():
    """They could not be sent as JSON otherwise."""

    class Numpy(PlainRenderer):
        def render_ids(self, messages, *, tools=None, add_generation_prompt=False):
            return [np.int64(7), np.int64(8)]

    ids = Translator(Numpy(), PlainTokenizer()).render([Message("user", "x")], ())
    assert ids == [7, 8]
    assert {int} == {type(i) for i in ids}


@pytest.mark.parametrize("stops", [[], None, {1}, ["<|im_end|>"]])
def test_stop_ids_that_are_none_are_the_renderers_fault(stops):
    """Known before the first turn."""

    class Unstoppable(PlainRenderer):
        def get_stop_token_ids(self):
            return stops

    with pytest.raises(RendererError):
        Translator(Unstoppable(), PlainTokenizer())


@pytest.mark.parametrize(
    "parsed",
    [
        None,
        {"content": "x"},
        Response(5),  # type: ignore[arg-type]  # as a careless renderer might
        Response("x", 7),  # type: ignore[arg-type]  # likewise
        Response(["x"]),  # type: ignore[arg-type]  # likewise
        Response("\ud800"),
        Response("x", "\ud800"),
        Response("x", tool_calls=[{"name": "f"}]),  # type: ignore[list-item]  # likewise
        Response("x", tool_calls=[Call("\ud800", {})]),
    ],
)
def test_a_parse_that_is_no_message_is_the_renderers_fault(parsed):
    """So that what was sampled can be kept, and nothing is recorded that could not be sent."""
    renderer = PlainRenderer()
    renderer.response = parsed

    with pytest.raises(RendererError):
        read(Translator(renderer, PlainTokenizer()), [5], [1], (), str)


def test_a_parser_cannot_change_what_is_recorded():
    """It is given copies."""

    class Careless(PlainRenderer):
        def parse_response(self, token_ids, *, prompt_ids=None):
            token_ids.clear()
            prompt_ids.clear()
            return Response("x")

    ids, prompt_ids = [5], [1]
    read(Translator(Careless(), PlainTokenizer()), ids, prompt_ids, (), str)

    assert (ids, prompt_ids) == ([5], [1])


def test_what_a_renderer_says_of_its_failure_stays_with_the_cause():
    """It may repeat the prompt, which agents and logs must not read."""

    class Talkative(PlainRenderer):
        def render_ids(self, messages, *, tools=None, add_generation_prompt=False):
            raise ValueError(messages)

    with pytest.raises(RendererError) as caught:
        Translator(Talkative(), PlainTokenizer()).render([Message("user", "secret")], ())
    assert "secret" not in caught.value.message
    assert "secret" in str(caught.value.__cause__)


@pytest.mark.parametrize(
    ("prompt", "inside"),
    [
        ("<|im_start|>assistant\n<think>\n", True),
        ("<｜Assistant｜><think>", True),
        ("[INST]hm[/INST][THINK]", True),
        ("<|im_start|>assistant\n", False),
        ("<|im_start|>assistant\n<think>\n\n</think>\n\n", False),
        ("<|im_start|>user\nwhat is <think>?<|im_end|>", False),
        ("", False),
    ],
)
def test_a_thought_at_the_end_of_a_prompt_is_seen(prompt, inside):
    """In whatever format, as long as its marker is one of those that models have."""
    assert Translator(PlainRenderer(), PlainTokenizer()).opens_thought([ord(letter) for letter in prompt]) is inside


def test_what_a_foreign_renderer_calls_like_something_of_ours_is_not_taken_for_it():
    """It has names of its own."""
    renderer: Any = PlainRenderer()
    renderer.answers = renderer.markers = renderer.effective_thinking_retention = ["its own"]
    translator = Translator(renderer, PlainTokenizer())

    assert (translator.answers, translator.markers, translator.thinking_retention) == (None, None, None)
    assert translator.render([Message("user", "x")], ({"type": "function"},)) == [1]


@pytest.mark.parametrize(
    ("name", "value"), [("stop_strings", "###"), ("stop_strings", None), ("stop_strings", [1]), ("calls_at_once", 0)]
)
def test_optional_members_that_are_ill_break_the_contract(name, value):
    """At start, and by their name."""
    renderer = PlainRenderer()
    setattr(renderer, name, value)
    with pytest.raises(RendererError, match=name):
        Translator(renderer, PlainTokenizer())
