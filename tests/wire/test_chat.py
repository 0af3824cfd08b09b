"""OpenAI's chat completions: what is read, what is refused and by which name, and what goes out."""

from contextlib import suppress
from pathlib import Path

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway import errors
from gateway.core.types import Message, Sampling, ToolCall, TurnRequest
from gateway.wire import chat, chat_answer, chat_stream
from gateway.wire.noise import Noise
from tests.wire.anything import JSON, mostly, objects

GOLDEN = Path(__file__).parent / "golden" / "chat"
PATTERN = {"max_pattern_size": 2, "min_pattern_size": 1, "min_count": 2}
USER = {"role": "user", "content": "hello"}
TOOL = {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}


def body(*messages: object, **fields: object) -> bytes:
    """A request body; one user message unless others are given."""
    return orjson.dumps({"messages": messages or [USER], **fields})


def message(**fields: object) -> Message:
    """The one message of a request, decoded."""
    (decoded,) = chat.decode(body(fields)).messages
    return decoded


def tool(**function: object) -> dict[str, object]:
    """A tool with something special about its function."""
    return {"type": "function", "function": {"name": "look", **function}}


def refused(raw: bytes) -> errors.BadRequest:
    """The error that a body raises."""
    with pytest.raises(errors.BadRequest) as caught:
        chat.decode(raw)
    assert caught.value.status == 400
    return caught.value


# What is read


def test_a_request_of_one_message_leaves_all_else_to_the_engine():
    """Defaults are the engine's, not ours."""
    assert TurnRequest(messages=(Message("user", "hello"),)) == chat.decode(body())


@pytest.mark.parametrize(
    ("field", "value", "read"),
    [
        ("model", "m", {"model": "m"}),
        ("tools", [TOOL], {"tools": (TOOL,)}),
        ("chat_template_kwargs", {"enable_thinking": False}, {"template_kwargs": {"enable_thinking": False}}),
        ("priority", -3, {"priority": -3}),
        ("cache_salt", "s" * 1024, {"cache_salt": "s" * 1024}),
        ("return_token_ids", True, {"return_token_ids": True}),
        ("session_id", "s1", {"session_hint": "s1"}),
        ("prompt_cache_key", "s2", {"session_hint": "s2"}),
        ("stream", False, {}),
        ("stream", True, {"stream": True}),
        ("stream_options", {"include_usage": True}, {"include_usage": True}),
        ("stream_options", {"include_usage": False}, {}),
        ("logprobs", False, {}),
        ("logprobs", True, {"top_logprobs": 0}),
        ("top_logprobs", None, {}),
        ("n", 1, {}),
        ("n", 128, {"n": 128}),
        ("response_format", {"type": "text"}, {}),
        ("response_format", {}, {}),
        ("tool_choice", "auto", {}),
        ("tool_choice", "none", {}),
    ],
)
def test_each_field_of_the_body_has_its_place(field, value, read):
    """Nothing else changes."""
    assert TurnRequest(messages=(Message("user", "hello"),), **read) == chat.decode(body(**{field: value}))


@pytest.mark.parametrize(("given", "read"), [(0, 0), (1, 1), (20, 20), (None, 0)])
def test_an_agent_may_ask_for_up_to_twenty_alternatives(given, read):
    """Null is as good as absent."""
    assert chat.decode(body(logprobs=True, top_logprobs=given)).top_logprobs == read


@pytest.mark.parametrize(
    ("field", "value", "read"),
    [
        ("max_tokens", 5, {"max_tokens": 5}),
        ("max_completion_tokens", 6, {"max_tokens": 6}),
        ("min_tokens", 0, {"min_tokens": 0}),
        ("temperature", 0, {"temperature": 0}),
        ("temperature", 100, {"temperature": 100}),
        ("top_p", 0.5, {"top_p": 0.5}),
        ("top_k", -1, {"top_k": -1}),
        ("min_p", 1, {"min_p": 1}),
        ("presence_penalty", -2, {"presence_penalty": -2}),
        ("frequency_penalty", 2, {"frequency_penalty": 2}),
        ("repetition_penalty", 1.1, {"repetition_penalty": 1.1}),
        ("seed", -(2**63), {"seed": -(2**63)}),
        ("seed", 0, {"seed": 0}),
        ("stop", "x", {"stop": ("x",)}),
        ("stop", ["a", "b", "c", "d"], {"stop": ("a", "b", "c", "d")}),
        ("stop", [], {}),
        ("include_stop_str_in_output", True, {"include_stop_str_in_output": True}),
        ("include_stop_str_in_output", False, {"include_stop_str_in_output": False}),
        ("ignore_eos", True, {"ignore_eos": True}),
        ("ignore_eos", False, {"ignore_eos": False}),
        ("logit_bias", {"5": -100, "151645": 0.5}, {"logit_bias": {"5": -100, "151645": 0.5}}),
        ("logit_bias", {}, {}),
        ("logit_bias", {"5": None}, {}),
        ("bad_words", ["no", "never"], {"bad_words": ("no", "never")}),
        ("bad_words", [], {}),
        ("allowed_token_ids", [0, 2**32 - 1], {"allowed_token_ids": (0, 2**32 - 1)}),
        ("thinking_token_budget", 0, {"thinking_token_budget": 0}),
        ("thinking_token_budget", -1, {"thinking_token_budget": -1}),
        ("repetition_detection", PATTERN, {"repetition_detection": PATTERN}),
        (
            "repetition_detection",
            {"max_pattern_size": 2, "min_count": 3},
            {"repetition_detection": PATTERN | {"min_pattern_size": 0, "min_count": 3}},
        ),
        ("repetition_detection", {"min_count": 1}, {}),
        ("repetition_detection", {}, {}),
        ("vllm_xargs", {"script": [1, 2]}, {"extra_args": {"script": [1, 2]}}),
        ("vllm_xargs", {}, {}),
    ],
)
def test_each_sampling_field_has_its_place(field, value, read):
    """Zero and false are values, an empty list or object is none."""
    assert Sampling(**read) == chat.decode(body(**{field: value})).sampling


@pytest.mark.parametrize(
    "field",
    [
        *("model", "tools", "tool_choice", "chat_template_kwargs", "priority", "cache_salt", "return_token_ids"),
        *(
            "session_id",
            "prompt_cache_key",
            "stream",
            "stream_options",
            "n",
            "response_format",
            "max_tokens",
            "max_completion_tokens",
        ),
        "structured_outputs",
        *("min_tokens", "temperature", "top_p", "top_k", "min_p", "presence_penalty", "frequency_penalty"),
        *("repetition_penalty", "seed", "stop", "include_stop_str_in_output", "ignore_eos", "logit_bias", "vllm_xargs"),
        *("bad_words", "allowed_token_ids", "thinking_token_budget", "repetition_detection"),
    ],
)
def test_null_is_as_good_as_nothing(field):
    """SDKs that serialise whole models send it everywhere."""
    assert chat.decode(body()) == chat.decode(body(**{field: None}))


def test_unknown_keys_are_ignored():
    """Clients send what other servers understand."""
    known = chat.decode(body())
    assert known == chat.decode(body(user="u", metadata={"a": [1]}, store=True, reasoning_effort="low", x=None))
    assert known.messages == chat.decode(body({**USER, "cache_control": {"type": "ephemeral"}, "x": 1})).messages


def test_the_newer_name_of_the_limit_wins():
    """OpenAI deprecated `max_tokens`; some clients send both."""
    assert 6 == chat.decode(body(max_tokens=5, max_completion_tokens=6)).sampling.max_tokens
    assert 5 == chat.decode(body(max_tokens=5, max_completion_tokens=None)).sampling.max_tokens


def test_a_session_id_wins_over_a_cache_key():
    """It was meant for us."""
    assert "s1" == chat.decode(body(session_id="s1", prompt_cache_key="s2")).session_hint
    assert "s2" == chat.decode(body(session_id="", prompt_cache_key="s2")).session_hint


@pytest.mark.parametrize("key", ["", " ", "team//a", "v1", "a/finish", "x" * 513, "a\nb"])
def test_a_cache_key_that_cannot_be_a_session_id_is_none(key):
    """It was never meant as one; what is called a session id stays one, to be refused."""
    assert chat.decode(body(prompt_cache_key=key)).session_hint is None
    assert "v1" == chat.decode(body(session_id="v1", prompt_cache_key=key)).session_hint


def test_tool_choice_none_hides_the_tools():
    """A template shows the model what it is given."""
    assert () == chat.decode(body(tools=[TOOL], tool_choice="none")).tools
    assert (TOOL,) == chat.decode(body(tools=[TOOL], tool_choice="auto")).tools


def test_of_equal_keys_the_last_wins():
    """As in every JSON reader that agents are written with."""
    assert "b" == chat.decode(b'{"model": "a", "model": "b", "messages": [{"role": "user"}]}').model


@pytest.mark.parametrize(
    ("role", "read"),
    [("system", "system"), ("developer", "system"), ("user", "user"), ("assistant", "assistant"), ("tool", "tool")],
)
def test_each_role_is_read(role, read):
    """OpenAI's developer is everybody else's system."""
    call_id = "c" if role == "tool" else None
    assert Message(read, "x", tool_call_id=call_id) == message(role=role, content="x", tool_call_id=call_id)


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("a", "a"),
        ("", ""),
        (None, ""),
        ([], ""),
        ([{"type": "text", "text": "a"}], "a"),
        ([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}], "ab"),
        ([{"type": "input_text", "text": "a\n"}, {"type": "output_text", "text": " b"}], "a\n b"),
        ([{"type": "text", "text": None}, {"type": "text"}], ""),
        ([{"type": "text", "text": "a", "cache_control": {}}], "a"),
    ],
)
def test_content_is_text_however_it_is_parted(content, text):
    """Parts are joined with nothing between them."""
    for role in ("system", "user", "assistant", "tool"):
        assert text == message(role=role, content=content, tool_call_id="c").content


def test_content_may_be_missing():
    """As beside tool calls."""
    assert Message("assistant") == message(role="assistant")


@pytest.mark.parametrize(
    ("fields", "reasoning"),
    [
        ({"reasoning_content": "r"}, "r"),
        ({"reasoning": "r"}, "r"),
        ({"reasoning_content": "r", "reasoning": "other"}, "r"),
        ({"reasoning_content": "", "reasoning": "r"}, "r"),
        ({"reasoning_content": None, "reasoning": None}, None),
        ({}, None),
    ],
)
def test_reasoning_is_read_under_both_names(fields, reasoning):
    """Clients replay the one they know."""
    assert reasoning == message(role="assistant", content="x", **fields).reasoning


def test_only_an_assistant_reasons_and_calls():
    """On other messages these keys are unknown ones."""
    assert Message("user", "x") == message(role="user", content="x", reasoning="r", tool_calls=[{"id": "c"}])


def test_a_tool_message_names_its_call():
    """And its tool, where the client says so."""
    assert Message("tool", "42", tool_call_id="c1", name="look") == message(
        role="tool", content="42", tool_call_id="c1", name="look"
    )
    assert Message("user", "x", name="ann") == message(role="user", content="x", name="ann")


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ('{"a": 1}', '{"a": 1}'),
        ("not json", "not json"),
        ("", ""),
        (None, ""),
        ({}, "{}"),
        ({"a": [1, 2.5, "ä", None]}, '{"a":[1,2.5,"ä",null]}'),
    ],
)
def test_arguments_are_json_text_or_the_object_itself(arguments, text):
    """Some clients replay the parsed object."""
    calls = [{"id": "c1", "type": "function", "function": {"name": "look", "arguments": arguments}}]
    assert (ToolCall("c1", "look", text),) == message(role="assistant", tool_calls=calls).tool_calls


def test_a_replayed_call_may_lack_its_id_and_its_arguments():
    """Position and name are left to tell it."""
    calls = [{"function": {"name": "a"}}, {"id": None, "function": {"name": "b"}}]
    assert (ToolCall("", "a", ""), ToolCall("", "b", "")) == message(role="assistant", tool_calls=calls).tool_calls


BILLING = "x-anthropic-billing-header: cc_version=2.1.197.c40;"


@pytest.mark.parametrize("role", ["system", "developer"])
@pytest.mark.parametrize("noise", [BILLING, f"{BILLING}\n", [{"type": "text", "text": BILLING}]])
def test_a_system_message_of_noise_alone_vanishes(role, noise):
    """Wherever it stands."""
    read = chat.decode(body({"role": role, "content": noise}, USER, {"role": role, "content": noise})).messages
    assert (Message("user", "hello"),) == read


def test_noise_before_the_instructions_is_left_out():
    """As a part of its own, with or without a mark for the cache, and as lines of one text."""
    marked = {"cache_control": {"type": "ephemeral"}}
    parts = [{"type": "text", "text": BILLING, **marked}, {"type": "text", "text": "You help.", **marked}]
    for content in (parts, f"{BILLING}\n\nYou help."):
        assert Message("system", "You help.") == message(role="system", content=content)


@pytest.mark.parametrize("content", [None, "", [], [{"type": "text", "text": ""}]])
def test_a_system_message_that_says_nothing_is_no_noise(content):
    """It stays, as the client sent it."""
    assert Message("system", "") == message(role="system", content=content)


@pytest.mark.parametrize("role", ["user", "assistant"])
def test_only_system_text_can_be_noise(role):
    """What a user or a model says is said."""
    assert message(role=role, content=BILLING).content == BILLING


def test_a_request_of_noise_alone_has_no_messages():
    """And is refused as one, with the reason."""
    error = refused(body({"role": "system", "content": BILLING}))
    assert error.param == "messages"
    assert "noise" in error.message


def test_marks_for_the_cache_leave_tools_but_not_their_schemas():
    """They move as a history grows, and would start a new lineage each time."""
    marked = {"cache_control": {"type": "ephemeral"}}
    schema = {"type": "object", "properties": marked}
    read = chat.decode(body(tools=[{**tool(**marked, parameters=schema), **marked}])).tools
    assert (tool(parameters=schema),) == read


def test_what_noise_is_can_be_said():
    """The operator's lists come in place of the usual ones."""
    noise, raw = (
        Noise(("Today",), ("strict",)),
        body({"role": "system", "content": "Today"}, USER, tools=[tool(strict=True)]),
    )
    asked = chat.decode(raw, noise)
    assert (asked.messages, asked.tools) == ((Message("user", "hello"),), (tool(),))
    assert chat.decode(body({"role": "system", "content": BILLING}), noise).messages == (Message("system", BILLING),)


# What is refused


def call(**function: object) -> dict[str, object]:
    """An assistant message with one call."""
    return {"role": "assistant", "tool_calls": [{"id": "c1", "function": {"name": "look", **function}}]}


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"messages": None}, "messages"),
        ({"messages": []}, "messages"),
        ({"messages": "hello"}, "messages"),
        ({"messages": {}}, "messages"),
        ({"messages": ["hello"]}, "messages[0]"),
        ({"messages": [USER, None]}, "messages[1]"),
        ({"messages": [USER, {}]}, "messages[1].role"),
        ({"messages": [{"role": "function"}]}, "messages[0].role"),
        ({"messages": [{"role": "User"}]}, "messages[0].role"),
        ({"messages": [{"role": 1}]}, "messages[0].role"),
        ({"messages": [{"role": ["user"]}]}, "messages[0].role"),
        ({"messages": [{"role": "user", "content": 1}]}, "messages[0].content"),
        ({"messages": [{"role": "user", "content": {"type": "text"}}]}, "messages[0].content"),
        ({"messages": [{"role": "user", "content": ["a"]}]}, "messages[0].content[0]"),
        ({"messages": [{"role": "user", "content": [{"type": "text", "text": 1}]}]}, "messages[0].content[0].text"),
        ({"messages": [{"role": "user", "content": [{"type": 1}]}]}, "messages[0].content[0].type"),
        ({"messages": [{"role": "user", "name": 1}]}, "messages[0].name"),
        ({"messages": [{"role": "tool", "tool_call_id": 1}]}, "messages[0].tool_call_id"),
        ({"messages": [{"role": "assistant", "reasoning_content": {}}]}, "messages[0].reasoning_content"),
        ({"messages": [{"role": "assistant", "reasoning": 1}]}, "messages[0].reasoning"),
        ({"messages": [{"role": "assistant", "tool_calls": {}}]}, "messages[0].tool_calls"),
        ({"messages": [{"role": "assistant", "tool_calls": [1]}]}, "messages[0].tool_calls[0]"),
        ({"messages": [{"role": "assistant", "tool_calls": [{}]}]}, "messages[0].tool_calls[0].function"),
        ({"messages": [call(name=None)]}, "messages[0].tool_calls[0].function.name"),
        ({"messages": [call(name="")]}, "messages[0].tool_calls[0].function.name"),
        ({"messages": [call(name=1)]}, "messages[0].tool_calls[0].function.name"),
        ({"messages": [call(arguments=[1])]}, "messages[0].tool_calls[0].function.arguments"),
        ({"messages": [call(arguments=1)]}, "messages[0].tool_calls[0].function.arguments"),
        (
            {"messages": [{"role": "assistant", "tool_calls": [{"id": 1, "function": {"name": "f"}}]}]},
            "messages[0].tool_calls[0].id",
        ),
        ({"model": 1}, "model"),
        ({"logprobs": True, "top_logprobs": 21}, "top_logprobs"),
        ({"logprobs": True, "top_logprobs": -1}, "top_logprobs"),
        ({"logprobs": True, "top_logprobs": True}, "top_logprobs"),
        ({"logprobs": True, "top_logprobs": 2.0}, "top_logprobs"),
        ({"top_logprobs": 2}, "top_logprobs"),
        ({"stop_token_ids": [5]}, "stop_token_ids"),
        ({"logprobs": 3}, "logprobs"),
        ({"stream": "false"}, "stream"),
        ({"stream_options": True}, "stream_options"),
        ({"stream_options": {"include_usage": 1}}, "stream_options.include_usage"),
        ({"n": 129}, "n"),
        ({"n": 0}, "n"),
        ({"n": 1.0}, "n"),
        ({"n": True}, "n"),
        ({"response_format": "text"}, "response_format"),
        ({"tool_choice": False}, "tool_choice"),
        ({"tools": {}}, "tools"),
        ({"tools": ["look"]}, "tools[0]"),
        ({"tools": [TOOL, {"type": "custom"}]}, "tools[1]"),
        ({"tools": [{"function": {"name": "look"}}]}, "tools[0]"),
        ({"tools": [{"type": "function"}]}, "tools[0].function"),
        ({"tools": [{"type": "function", "function": {}}]}, "tools[0]"),
        ({"tools": [{"type": "function", "function": {"name": ""}}]}, "tools[0]"),
        ({"tools": [{"type": "function", "function": {"name": 1}}]}, "tools[0].function.name"),
        ({"tools": [{"type": 1}]}, "tools[0].type"),
        ({"tools": [tool(name="f" * 513)]}, "tools[0].function.name"),
        ({"tools": [tool(description=["x"])]}, "tools[0].function.description"),
        ({"tools": [tool(parameters=[])]}, "tools[0].function.parameters"),
        ({"tools": [tool(parameters={"x": "x" * (1 << 20)})]}, "tools[0].function.parameters"),
        ({"tools": [TOOL] * 513}, "tools"),
        ({"messages": [{"role": "tool", "content": "x"}]}, "messages[0].tool_call_id"),
        ({"messages": [{"role": "tool", "tool_call_id": None}]}, "messages[0].tool_call_id"),
        ({"messages": [{"role": "tool", "tool_call_id": "c" * 513}]}, "messages[0].tool_call_id"),
        ({"messages": [{**USER, "name": "n" * 513}]}, "messages[0].name"),
        ({"messages": [{"role": "user", "content": [{"type": "text"}] * 4097}]}, "messages[0].content"),
        ({"messages": [call(name="f" * 513)]}, "messages[0].tool_calls[0].function.name"),
        ({"messages": [USER] * 16_385}, "messages"),
        ({"model": "m" * 513}, "model"),
        ({"chat_template_kwargs": {"x": "x" * 16_384}}, "chat_template_kwargs"),
        ({"vllm_xargs": {"x": "x" * (1 << 20)}}, "vllm_xargs"),
        ({"min_tokens": 6, "max_tokens": 5}, "min_tokens"),
        ({"stop": "x" * 1025}, "stop"),
        ({"stop": ["a", "x" * 1025]}, "stop"),
        ({"logit_bias": {"5" * 11: 1}}, "logit_bias"),
        ({"logit_bias": {str(token): 1 for token in range(1025)}}, "logit_bias"),
        ({"chat_template_kwargs": []}, "chat_template_kwargs"),
        ({"priority": 1.5}, "priority"),
        ({"priority": 2**63}, "priority"),
        ({"cache_salt": ""}, "cache_salt"),
        ({"cache_salt": "s" * 1025}, "cache_salt"),
        ({"cache_salt": 1}, "cache_salt"),
        ({"return_token_ids": 1}, "return_token_ids"),
        ({"session_id": 1}, "session_id"),
        ({"prompt_cache_key": []}, "prompt_cache_key"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"max_tokens": "5"}, "max_tokens"),
        ({"max_tokens": 5, "max_completion_tokens": 0}, "max_completion_tokens"),
        ({"max_tokens": 0, "max_completion_tokens": 5}, "max_tokens"),
        ({"min_tokens": -1}, "min_tokens"),
        ({"temperature": -0.1}, "temperature"),
        ({"temperature": 100.5}, "temperature"),
        ({"temperature": "1"}, "temperature"),
        ({"temperature": True}, "temperature"),
        ({"top_p": 1.1}, "top_p"),
        ({"top_k": -2}, "top_k"),
        ({"top_k": 1.0}, "top_k"),
        ({"min_p": -0.1}, "min_p"),
        ({"presence_penalty": 2.1}, "presence_penalty"),
        ({"frequency_penalty": -2.1}, "frequency_penalty"),
        ({"repetition_penalty": -1}, "repetition_penalty"),
        ({"seed": 2**63}, "seed"),
        ({"seed": 1.0}, "seed"),
        ({"stop": ""}, "stop"),
        ({"stop": ["a", ""]}, "stop"),
        ({"stop": ["a", 1]}, "stop"),
        ({"stop": ["a"] * 5}, "stop"),
        ({"stop": {}}, "stop"),
        ({"stop": 1}, "stop"),
        ({"include_stop_str_in_output": "yes"}, "include_stop_str_in_output"),
        ({"ignore_eos": 0}, "ignore_eos"),
        ({"logit_bias": []}, "logit_bias"),
        ({"logit_bias": {"5": 101}}, "logit_bias.5"),
        ({"logit_bias": {"5": "1"}}, "logit_bias.5"),
        ({"logit_bias": {"five": 1}}, "logit_bias"),
        ({"logit_bias": {"-5": 1}}, "logit_bias"),
        ({"logit_bias": {"": 1}}, "logit_bias"),
        ({"logit_bias": {"\u00b2": 1}}, "logit_bias"),
        ({"bad_words": "no"}, "bad_words"),
        ({"bad_words": [""]}, "bad_words"),
        ({"bad_words": [1]}, "bad_words"),
        ({"bad_words": ["x" * 1025]}, "bad_words"),
        ({"bad_words": ["x"] * 129}, "bad_words"),
        ({"allowed_token_ids": []}, "allowed_token_ids"),
        ({"allowed_token_ids": [-1]}, "allowed_token_ids"),
        ({"allowed_token_ids": [2**32]}, "allowed_token_ids"),
        ({"allowed_token_ids": [True]}, "allowed_token_ids"),
        ({"allowed_token_ids": [1] * 65_537}, "allowed_token_ids"),
        ({"thinking_token_budget": -2}, "thinking_token_budget"),
        ({"thinking_token_budget": 1.5}, "thinking_token_budget"),
        ({"repetition_detection": {"pattern": 1}}, "repetition_detection"),
        ({"repetition_detection": PATTERN | {"min_count": 1}}, "repetition_detection.min_count"),
        ({"repetition_detection": PATTERN | {"min_pattern_size": 3}}, "repetition_detection.min_pattern_size"),
        ({"repetition_detection": PATTERN | {"max_pattern_size": 4097}}, "repetition_detection.max_pattern_size"),
        ({"vllm_xargs": "x"}, "vllm_xargs"),
    ],
)
def test_an_ill_value_is_refused_by_the_name_of_its_field(fields, param):
    """The name is a path into the body, and stands in the message too."""
    error = refused(orjson.dumps({"messages": [USER], **fields}))
    assert param == error.param
    assert error.message.startswith(param)
    assert error.code == "invalid_request" or "type" in param


def test_a_token_id_of_the_bias_is_written_in_ascii():
    """Other scripts have digits too, and no engine reads them."""
    assert "logit_bias" == refused(body(logit_bias={"\u0661": 1})).param


@pytest.mark.parametrize("kind", ["image_url", "input_audio", "file", "refusal", "", None])
def test_a_part_that_is_no_text_is_refused_with_its_own_code(kind):
    """Harnesses can then try again without it."""
    error = refused(body(USER, {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": kind}]}))
    assert errors.MultimodalUnsupported is type(error)
    assert "multimodal_unsupported" == error.code
    assert "messages[1].content[1].type" == error.param


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"[]",
        b"null",
        b'"hello"',
        b"{",
        b"\xff",
        b'{"temperature": NaN, "messages": [{"role": "user"}]}',
        b'{"model": "\\ud800", "messages": [{"role": "user"}]}',
        b"[" * 100_000,
    ],
    ids=["empty", "list", "null", "text", "cut", "bytes", "nan", "surrogate", "deep"],
)
def test_a_body_that_is_no_json_object_is_refused(raw):
    """No field is at fault."""
    assert refused(raw).param is None


def test_a_number_beyond_64_bits_is_no_integer():
    """It has become a float on the way in."""
    assert "seed" == refused(b'{"seed": 99999999999999999999, "messages": [{"role": "user"}]}').param


def nested(levels: int) -> bytes:
    """An object of so many levels, as JSON."""
    return b'{"a":' * levels + b"1" + b"}" * levels


@pytest.mark.parametrize(
    ("template", "param"),
    [
        (b'"chat_template_kwargs": %s', "chat_template_kwargs"),
        (
            b'"tools": [{"type": "function", "function": {"name": "f", "parameters": %s}}]',
            "tools[0].function.parameters",
        ),
        (b'"vllm_xargs": %s', "vllm_xargs"),
        (b'"response_format": %s', "response_format"),
        (b'"logit_bias": %s', "logit_bias"),
        (b'"tool_choice": %s', "tool_choice"),
        (b'"stop": %s', "stop"),
    ],
)
@pytest.mark.parametrize("levels", [100, 1000])
def test_a_deeply_nested_value_is_refused(template, param, levels):
    """No input reaches Python's own recursion limit."""
    raw = b'{"messages": [{"role": "user"}], ' + template % nested(levels) + b"}"
    assert param == refused(raw).param


@pytest.mark.parametrize("levels", [100, 300, 1000])
def test_deeply_nested_arguments_are_refused_or_read(levels):
    """The JSON reader goes deeper than the writer: what one takes, the other may not."""
    raw = b'{"messages": [{"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": %s}}]}]}'
    with suppress(errors.BadRequest):
        (decoded,) = chat.decode(raw % nested(levels)).messages
        assert nested(levels).decode() == decoded.tool_calls[0].arguments


@pytest.mark.parametrize("levels", [100, 1000])
def test_a_deeply_nested_role_is_refused(levels):
    """It is no role at any depth."""
    raw = b'{"messages": [{"role": %s}]}' % (b"[" * levels + b"]" * levels)
    assert "messages[0].role" == refused(raw).param


WORDS = st.sampled_from(["text", "json_schema", "function", "look", "auto", "required", "a", ""])
FUNCTIONS = mostly(objects(name=mostly(WORDS), arguments=JSON))
MESSAGES = mostly(
    objects(
        role=mostly(st.sampled_from(["system", "developer", "user", "assistant", "tool"])),
        content=mostly(WORDS | st.lists(mostly(objects(type=mostly(WORDS), text=mostly(WORDS))), max_size=2)),
        reasoning=mostly(WORDS),
        tool_calls=mostly(st.lists(mostly(objects(id=mostly(WORDS), function=FUNCTIONS)), max_size=2)),
        tool_call_id=mostly(WORDS),
    )
)
BODIES = mostly(
    objects(
        messages=mostly(st.lists(MESSAGES, min_size=1, max_size=3)),
        model=mostly(WORDS),
        tools=mostly(st.lists(mostly(objects(type=mostly(WORDS), function=FUNCTIONS)), max_size=2)),
        tool_choice=mostly(WORDS | objects(type=WORDS, function=objects(name=mostly(WORDS)))),
        temperature=mostly(st.floats(0, 2)),
        max_tokens=mostly(st.integers(1, 9)),
        stop=mostly(WORDS | st.lists(WORDS, max_size=5)),
        logit_bias=mostly(st.dictionaries(st.text("019", max_size=3), mostly(st.floats(-100, 100)), max_size=2)),
        response_format=mostly(objects(type=mostly(WORDS), json_schema=mostly(objects(schema=JSON)))),
        structured_outputs=mostly(objects(json=JSON, choice=JSON, regex=mostly(WORDS))),
        chat_template_kwargs=JSON,
        cache_salt=mostly(WORDS),
    )
)


@settings(deadline=None)
@given(BODIES)
def test_a_body_is_decoded_or_refused_as_a_bad_request(fields):
    """Whatever a client sends, it is never our own failure."""
    with suppress(errors.BadRequest):
        assert chat.decode(orjson.dumps(fields)).messages


@settings(deadline=None)
@given(st.binary(max_size=60))
def test_any_bytes_are_refused_as_a_bad_request(raw):
    """Bytes that happen to be a request are rare."""
    with suppress(errors.BadRequest):
        chat.decode(raw)


def test_what_goes_out_is_the_dialects_too():
    """It is written elsewhere, and found here."""
    assert (chat.encode, chat.encode_error, chat.stream) == (
        chat_answer.encode,
        chat_answer.encode_error,
        chat_stream.ChatStream,
    )
