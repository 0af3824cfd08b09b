"""What binds an answer: which of a chat request's fields say so, and which values of them are refused, by name."""

import orjson
import pytest

from gateway.errors import BadRequest
from gateway.wire import chat
from gateway.wire.fields import MAX_DEPTH

SCHEMA = {"type": "object", "properties": {"city": {"enum": ["Paris", "Rome"]}}}


def tool(name: str) -> dict[str, object]:
    """A tool of that name."""
    return {"type": "function", "function": {"name": name, "parameters": SCHEMA}}


def shape(schema: object) -> dict[str, object]:
    """A response format, as SDKs write it."""
    return {"type": "json_schema", "json_schema": {"name": "answer", "strict": True, "schema": schema}}


def named(name: object) -> dict[str, object]:
    """The choice of one tool, as SDKs write it."""
    return {"type": "function", "function": {"name": name}}


LOOK, GO = tool("look"), tool("go")


def decoded(**fields: object) -> tuple[object, tuple[str, ...]]:
    """What binds the answer to a request with these fields."""
    request = chat.decode(orjson.dumps({"messages": [{"role": "user", "content": "hello"}], **fields}))
    return request.constraint, request.forced_tools


def refused(**fields: object) -> BadRequest:
    """The error that they raise."""
    with pytest.raises(BadRequest) as caught:
        decoded(**fields)
    return caught.value


@pytest.mark.parametrize(
    ("given", "constraint"),
    [
        (None, None),
        ({}, None),
        ({"type": "text"}, None),
        ({"type": "json_object"}, {"json_object": True}),
        ({"type": "json_object", "schema": SCHEMA}, {"json": SCHEMA}),
        (shape(SCHEMA), {"json": SCHEMA}),
        (shape({}), {"json": {}}),
    ],
)
def test_a_response_format_becomes_the_grammar_that_engines_know(given, constraint):
    """Its schema is kept whole; its name is for nobody here."""
    assert (constraint, ()) == decoded(response_format=given)


@pytest.mark.parametrize(
    "given",
    [
        {"json": SCHEMA},
        {"json": '{"type": "object"}', "disable_any_whitespace": True},
        {"regex": "a+"},
        {"choice": ["yes", "no"]},
        {"grammar": 'root ::= "a"'},
        {"json_object": True},
        {"structural_tag": "{}"},
    ],
)
def test_structured_outputs_are_passed_on_as_they_are(given):
    """They are the engine's own words already."""
    assert (given, ()) == decoded(structured_outputs=given)


@pytest.mark.parametrize(
    ("choice", "forced"), [(None, ()), ("auto", ()), ("none", ()), ("required", ("look", "go")), (named("go"), ("go",))]
)
def test_a_tool_choice_names_the_tools_of_which_one_must_be_called(choice, forced):
    """Each once; none where the model may choose."""
    assert (None, forced) == decoded(tools=[LOOK, GO, LOOK], tool_choice=choice)


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"response_format": "text"}, "response_format"),
        ({"response_format": {"type": "structural_tag"}}, "response_format.type"),
        ({"response_format": {"type": ["text"]}}, "response_format.type"),
        ({"response_format": {"type": "json_schema"}}, "response_format.json_schema"),
        ({"response_format": {"type": "json_schema", "json_schema": {}}}, "response_format.json_schema.schema"),
        ({"response_format": shape(True)}, "response_format.json_schema.schema"),
        ({"response_format": shape({"enum": ["x" * (1 << 18)]})}, "response_format"),
        ({"structured_outputs": []}, "structured_outputs"),
        ({"structured_outputs": {"disable_any_whitespace": True}}, "structured_outputs"),
        ({"structured_outputs": {"regex": "a", "choice": ["a"]}}, "structured_outputs"),
        ({"structured_outputs": {"regex": "a" * (1 << 18)}}, "structured_outputs"),
        ({"structured_outputs": {"json": ["a"]}}, "structured_outputs.json"),
        ({"structured_outputs": {"json": ""}}, "structured_outputs.json"),
        ({"structured_outputs": {"regex": ["a"]}}, "structured_outputs.regex"),
        ({"structured_outputs": {"grammar": ""}}, "structured_outputs.grammar"),
        ({"structured_outputs": {"choice": []}}, "structured_outputs.choice"),
        ({"structured_outputs": {"choice": ["a", 1]}}, "structured_outputs.choice"),
        ({"structured_outputs": {"choice": "a"}}, "structured_outputs.choice"),
        ({"structured_outputs": {"choice": ["a"] * 4097}}, "structured_outputs.choice"),
        ({"structured_outputs": {"json_object": False}}, "structured_outputs.json_object"),
        ({"structured_outputs": {"structural_tag": {}}}, "structured_outputs.structural_tag"),
        ({"tool_choice": "required"}, "tool_choice"),
        ({"tool_choice": named("look")}, "tool_choice"),
        ({"tools": [LOOK], "tool_choice": "any"}, "tool_choice"),
        ({"tools": [LOOK], "tool_choice": ["look"]}, "tool_choice"),
        ({"tools": [LOOK], "tool_choice": False}, "tool_choice"),
        ({"tools": [LOOK], "tool_choice": {}}, "tool_choice.type"),
        ({"tools": [LOOK], "tool_choice": {"type": "custom", "custom": {"name": "look"}}}, "tool_choice.type"),
        ({"tools": [LOOK], "tool_choice": {"type": "function", "name": "look"}}, "tool_choice.function"),
        ({"tools": [LOOK], "tool_choice": named("go")}, "tool_choice.function.name"),
        ({"tools": [LOOK], "tool_choice": named(["look"])}, "tool_choice.function.name"),
    ],
)
def test_an_ill_value_is_refused_by_its_name(fields, param):
    """So that the caller can find it."""
    assert param == refused(**fields).param


def test_a_choice_among_allowed_tools_is_refused_with_the_remedy():
    """OpenAI has it for its prompt cache; here the tools that are sent are the tools that are allowed."""
    allowed = {"mode": "required", "tools": [named("look")]}
    error = refused(tools=[LOOK, GO], tool_choice={"type": "allowed_tools", "allowed_tools": allowed})
    assert ("tool_choice.type", True) == (error.param, "send only the tools that are allowed" in error.message)


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"response_format": {"type": "json_object"}, "tool_choice": "required"}, "tool_choice"),
        ({"structured_outputs": {"regex": "a"}, "tool_choice": named("look")}, "tool_choice"),
        ({"response_format": shape(SCHEMA), "structured_outputs": {"regex": "a"}}, "structured_outputs"),
    ],
)
def test_an_answer_is_bound_to_one_thing_only(fields, param):
    """Two of them would each be the whole answer."""
    assert param == refused(tools=[LOOK], **fields).param
    assert decoded(tools=[LOOK], response_format={"type": "text"}, tool_choice="required") == (None, ("look",))


@pytest.mark.parametrize("field", ["response_format", "structured_outputs", "tool_choice"])
def test_depth_is_bounded(field):
    """No input reaches Python's own recursion limit."""
    deep: object = 1
    for _ in range(MAX_DEPTH + 2):
        deep = {"json": deep}
    assert field == (refused(**{field: deep}).param or "").partition(".")[0]


@pytest.mark.parametrize("name", ["guided_json", "guided_regex", "guided_choice", "guided_grammar"])
def test_older_words_for_a_grammar_are_refused_with_the_newer_one(name):
    """An engine in tokens mode would never see them."""
    error = refused(**{name: {"type": "object"}})
    assert error.param == name
    assert f"structured_outputs.{name.removeprefix('guided_')}" in error.message


@pytest.mark.parametrize(("name", "instead"), [("functions", "tools"), ("function_call", "tool_choice")])
def test_functions_are_refused_with_what_has_replaced_them(name, instead):
    """They would be offered to nobody."""
    assert refused(**{name: [LOOK]}).message.endswith(f"use {instead}")


@pytest.mark.parametrize(
    "nothing",
    [
        {"functions": []},
        {"guided_json": {}},
        {"guided_regex": None},
        {"function_call": "auto"},
        {"function_call": "none"},
    ],
)
def test_older_words_that_ask_for_nothing_are_passed_over(nothing):
    """Clients that send their defaults want nothing by them."""
    assert decoded(**nothing) == (None, ())


def test_what_is_null_is_absent():
    """Clients dump every field of theirs."""
    assert decoded(structured_outputs={"json": None, "regex": "a+", "whitespace_pattern": None}) == (
        {"regex": "a+"},
        (),
    )
