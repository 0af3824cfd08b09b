"""What the simulated model says to a user's real tools does no harm."""

import subprocess
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.doctor.harmless import (
    COMMANDS,
    WORDS,
    arguments_of,
    finishes,
    may_call,
    takes_commands,
    value_of,
    with_command,
)

TEXT = {"type": "string"}


def tool(name="tool", required=None, **properties):
    """A tool, all of whose arguments are required unless `required` says otherwise."""
    wanted = list(properties) if required is None else required
    return {"name": name, "parameters": {"type": "object", "properties": properties, "required": wanted}}


@pytest.mark.parametrize(
    "name",
    [
        "delete_city",
        "writeFile",
        "send-email",
        "str_replace_editor",
        "RemoveUser",
        "update_order",
        "book_flight",
        "get_and_delete_mail",
        "deletefile",
        "sendmail",
        "DELETE_FILE",
        "turn_on_lights",
        "reboot",
        "удалить",
    ],
)
def test_a_tool_that_says_it_changes_something_is_not_called(name):
    """Unless it is named, and then it alone."""
    assert not may_call(tool(name), ())
    assert may_call(tool(name), {name})


@pytest.mark.parametrize(
    "name", ["weather", "read_file", "searchDocs", "bash", "get_order_details", "list_settings", "get_updates"]
)
def test_a_tool_that_only_reads_or_runs_is_called(name):
    assert may_call(tool(name), ())
    assert not may_call(tool(name), {"another"})


@pytest.mark.parametrize("name", ["command", "cmd", "script", "keystrokes", "shell_command", "bashCommand"])
@given(nth=st.integers(0, 99))
def test_a_shell_gets_commands_that_do_nothing(name, nth):
    """As text, or as a list of it."""
    assert arguments_of(tool(**{name: TEXT}), nth)[name] in COMMANDS
    listed = {"type": "array", "items": TEXT, "minItems": 2}
    assert arguments_of(tool(**{name: listed}), nth)[name] == [COMMANDS[nth % len(COMMANDS)]]


@pytest.mark.process
def test_the_commands_do_nothing(tmp_path):
    """They end well and leave no file behind."""
    for command in COMMANDS:
        subprocess.run(["sh", "-c", command], cwd=tmp_path, check=True, capture_output=True)
    assert list(tmp_path.iterdir()) == []


def test_a_command_among_several_words_is_the_one_that_changes_nothing():
    """As editors have them, that take a command from a list."""
    editor = tool(command={"type": "string", "enum": ["create", "str_replace", "view"]}, path=TEXT)

    assert arguments_of(editor, 0) == {"command": "view", "path": "."}
    assert not takes_commands(editor)


@pytest.mark.parametrize(
    "action",
    [
        {"enum": ["delete", "purge", "read"]},
        {"$ref": "#/$defs/Action"},
        {"anyOf": [{"$ref": "#/$defs/Action"}, {"type": "null"}]},
        {"type": "array", "items": {"$ref": "#/$defs/Action"}},
        {"type": "object", "properties": {"action": {"$ref": "#/$defs/Action"}}, "required": ["action"]},
    ],
)
@given(nth=st.integers(0, 99))
def test_of_given_words_none_is_said_that_changes_something(action, nth):
    """Wherever in a schema they stand; a tool that has no other ones is not called at all."""
    one = tool(action=action)
    one["parameters"]["$defs"] = {"Action": {"enum": ["delete", "purge", "read"]}}
    said = str(arguments_of(one, nth))
    assert "delete" not in said
    assert "purge" not in said
    assert may_call(one, ())

    one["parameters"]["$defs"] = {"Action": {"enum": ["delete", "purge"]}}
    one["parameters"]["properties"]["action"] = {"$ref": "#/$defs/Action"}
    assert not may_call(one, ())
    assert not may_call(tool(action={"const": "delete"}), ())


KEYS = st.sampled_from(["command", "shell", "path", "q", "enum", "const", "items", "$ref", "args", "force", "required"])
SCHEMAS = st.recursive(
    st.sampled_from(
        [
            *({"type": kind} for kind in ("string", "integer", "boolean", "null", "array", "object")),
            {"enum": ["rm -rf /", "delete", "look"]},
            {"$ref": "#/$defs/A"},
            {"$ref": "#/nowhere"},
            {"type": "string", "default": "rm -rf /", "examples": ["rm -rf /"]},
            {},
        ]
    ),
    lambda inner: st.one_of(
        inner.map(lambda items: {"type": "array", "items": items, "minItems": 2}),
        inner.map(lambda choice: {"anyOf": [choice, {"type": "null"}]}),
        st.dictionaries(KEYS, inner, max_size=4).map(
            lambda named: {"type": "object", "properties": named, "required": [*named][:2]}
        ),
    ),
    max_leaves=8,
)


@given(properties=st.dictionaries(KEYS, SCHEMAS, max_size=4), definition=SCHEMAS, nth=st.integers(0, 99))
def test_whatever_a_tool_looks_like_what_is_said_to_it_does_no_harm(properties, definition, nth):
    """Arguments with the names of a schema's own words, references to nothing and to themselves."""
    odd = tool(**properties)
    odd["parameters"]["$defs"] = {"A": definition}
    made = arguments_of(odd, nth)

    assert made.keys() <= properties.keys()
    for said in texts(made):
        assert said in {*COMMANDS, "1 + 1", "SELECT 1", "about:blank", ".", "look"} or set(said.split()) <= set(WORDS)


@pytest.mark.parametrize("parameters", [{"enum": ["x"]}, {"const": 1}, {"$ref": "#/$defs/A"}, {"type": "string"}, {}])
def test_parameters_that_are_no_object_are_no_arguments(parameters):
    assert arguments_of({"name": "odd", "parameters": parameters}, 0) == {}


def texts(value: Any) -> list[str]:
    """All text in a value."""
    if isinstance(value, dict | list):
        return [text for part in (value.values() if isinstance(value, dict) else value) for text in texts(part)]
    return [value] if isinstance(value, str) else []


def test_code_queries_and_places_are_harmless():
    """Whatever language it is."""
    made = arguments_of(tool(code=TEXT, sql=TEXT, url=TEXT, file_path=TEXT, target_dir=TEXT), 0)

    assert made == {"code": "1 + 1", "sql": "SELECT 1", "url": "about:blank", "file_path": ".", "target_dir": "."}


@given(nth=st.integers(0, 99))
def test_all_other_text_is_of_words_that_mean_nothing(nth):
    """Nested, too; and numbers stay within their bounds."""
    nested = {"type": "object", "properties": {"command": TEXT, "note": TEXT}, "required": ["command", "note"]}
    made: Any = arguments_of(tool(query=TEXT, days={"type": "integer", "minimum": 3, "maximum": 4}, inner=nested), nth)

    assert set(made["query"].split()) <= set(WORDS)
    assert made["days"] in (3, 4)
    assert made["inner"]["command"] in COMMANDS
    assert set(made["inner"]["note"].split()) <= set(WORDS)


@given(nth=st.integers(0, 99))
def test_nothing_is_given_that_is_not_required(nth):
    """What is optional might be an option that does something."""
    assert arguments_of(tool(required=["city"], city=TEXT, force={"type": "boolean"}), nth).keys() == {"city"}
    assert arguments_of(tool(required=[], city=TEXT), nth) == arguments_of({"name": "bare"}, nth) == {}


def test_the_command_that_ends_an_agent_goes_where_commands_go():
    bash = tool(command=TEXT, timeout={"type": "integer", "const": 5})

    assert takes_commands(bash)
    assert with_command(bash, "echo THE_END", 0) == {"command": "echo THE_END", "timeout": 5}


@pytest.mark.parametrize(
    ("name", "ends"), [("finish", True), ("finalAnswer", True), ("submit", True), ("refinish", False)]
)
def test_tools_that_end_an_agent_are_known_by_their_names(name, ends):
    assert finishes(name) is ends


def test_a_value_without_properties_is_one_that_the_schema_allows():
    assert value_of({"type": "integer", "minimum": 7, "maximum": 7}, 0) == 7
    assert value_of({"type": "object", "properties": {"cmd": TEXT}, "required": ["cmd"]}, 1) == {"cmd": COMMANDS[1]}
