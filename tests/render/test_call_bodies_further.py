"""What makes a call, in the notations of GLM, MiniMax, Kimi, newer DeepSeek, Mistral, Granite and Llama."""

import pytest

from gateway.render.call_bodies import Call, array, invoked, keyed, llama, mistral, numbered, separated
from tests.render.test_call_bodies import tools

_KV = "<arg_key>{}</arg_key>\n<arg_value>{}</arg_value>\n"


@pytest.mark.parametrize(
    ("body", "arguments"),
    [
        ("f\n" + _KV.format("a", " x ") + _KV.format("b", "[1]"), '{"a": " x ", "b": [1]}'),
        ("f" + _KV.format("a", "1").replace("\n", ""), '{"a": 1}'),
        ("\nf\n", "{}"),
        ("f", "{}"),
        ("f" + _KV.format("a", "1") * 2, None),
        ("f" + _KV.format("a", "1") + "x", None),
        ("f" + _KV.format("a", "<arg_key>b"), None),
        ("f<arg_key>a</arg_key>", None),
        ("f<arg_key>a</arg_key><arg_key>b</arg_key><arg_value>1</arg_value>", None),
        ("f\n<arg_value>1</arg_value>", None),
        *((body, None) for body in ("", "<arg_key>a</arg_key><arg_value>1</arg_value>", "f g", '"f"')),
    ],
)
def test_keys_and_values_come_in_turn(body, arguments):
    """Behind a name with nothing else in it."""
    assert keyed(body, None) == (None if arguments is None else Call("f", arguments))


@pytest.mark.parametrize(
    ("body", "arguments"),
    [
        (
            ' name="f">\n<parameter name="a"> x </parameter>\n<parameter name="b">2</parameter>\n',
            '{"a": " x ", "b": 2}',
        ),
        (' name="f">', "{}"),
        (' name="f">x', None),
        (' name="f"><parameter name="a">1', None),
        (' name="f"><parameter name="a"><parameter name="b">1</parameter>', None),
        (' name="f"><parameter name="a">1</parameter>' + '<parameter name="a">1</parameter>', None),
        *((body, None) for body in ("", ' name="">', ">", "f")),
    ],
)
def test_minimaxs_parameters_have_names(body, arguments):
    """As they are, to the last space."""
    assert invoked(body, None) == (None if arguments is None else Call("f", arguments))


@pytest.mark.parametrize("read", [keyed, invoked])
@pytest.mark.parametrize(("schema", "value"), [({"type": "string"}, '"1"'), ({"type": "integer"}, "1"), ({}, "1")])
def test_a_schema_tells_text_from_json_in_every_notation(read, schema, value):
    """As in Qwen's."""
    body = {keyed: "f" + _KV.format("a", "1"), invoked: ' name="f"><parameter name="a">1</parameter>'}[read]
    assert read(body, tools(schema)) == Call("f", f'{{"a": {value}}}')
    assert read(body.replace("1", "x"), tools({"type": "integer"})) is None


@pytest.mark.parametrize(
    ("read", "body", "call_id"),
    [
        (numbered, "functions.f:0<|tool_call_argument_begin|>{}", "functions.f:0"),
        (numbered, " f:12 <|tool_call_argument_begin|> {} ", "f:12"),
        (numbered, "functions.f<|tool_call_argument_begin|>{}", "functions.f"),
        (separated, " f <｜tool▁sep｜>{}", None),
        (mistral, "f[CALL_ID] x1 [ARGS]{}", "x1"),
        (mistral, "f[CALL_ID][ARGS]{}", None),
    ],
)
def test_a_name_without_quotes_stands_before_the_arguments(read, body, call_id):
    """And the model's own id, where it writes one."""
    call = read(body, None)
    assert (call, call.id) == (Call("f", "{}"), call_id)


@pytest.mark.parametrize(
    ("read", "body"),
    [
        *((numbered, f"{name}<|tool_call_argument_begin|>{{}}") for name in ("", "f g", "f<|x|>", '"f"')),
        *((numbered, body) for body in ("functions.f:0", "functions.f:0<|tool_call_argument_begin|>[]", "")),
        *(
            (separated, body)
            for body in ("f", "<｜tool▁sep｜>{}", "f g<｜tool▁sep｜>{}", "f<｜tool▁sep｜>", "f<｜tool▁sep｜>5")
        ),
        *((mistral, body) for body in ("f", "", "f[ARGS]", "[ARGS]{}", "f g{}", "f[ARGS]{} x", "f[CALL_ID]x")),
    ],
)
def test_a_name_with_something_else_in_it_or_arguments_that_are_none_make_no_call(read, body):
    """They would be lost, or taken for a part of the name."""
    assert read(body, None) is None


@pytest.mark.parametrize("read", [array, mistral])
@pytest.mark.parametrize(
    ("body", "count"),
    [
        (' [{"name": "f", "arguments": {}}]\n', 1),
        ('[{"name": "f", "arguments": "{}", "id": "x"}, {"id": 5, "name": "f", "arguments": {}}]', 2),
        ("[]", None),
        ('[{"name": "f"}]', None),
        ('[{"name": "f", "parameters": {}}]', None),
        ('[{"name": "f", "arguments": {}}, 5]', None),
        ('[{"name": "f", "arguments": {}}] x', None),
        ("[", None),
    ],
)
def test_a_list_holds_calls_and_nothing_else(read, body, count):
    """All of it, or none."""
    assert read(body, None) == (None if count is None else (Call("f", "{}"),) * count)


def test_a_list_is_a_list():
    """One object is none."""
    assert array('{"name": "f", "arguments": {}}', None) is None


@pytest.mark.parametrize(
    ("body", "count"),
    [
        (' {"name": "f", "parameters": {}}\n', 1),
        ('{"type": "function", "name": "f", "arguments": {}}', 1),
        ('{"name": "f", "parameters": {}} ; {"name": "f", "parameters": "{}"}', 2),
        ('{"name": "f"}', None),
        ('{"name": "f", "parameters": {}, "arguments": {}}', None),
        ('{"name": "f", "parameters": {}};', None),
        ('{"name": "f", "parameters": {}} {"name": "f", "parameters": {}}', None),
        ('{"name": "f", "name": "f", "parameters": {}}', None),
        *((body, None) for body in ("", "5", "[]", "[" * 100_000)),
    ],
)
def test_llama_writes_objects_with_parameters(body, count):
    """Without them JSON may be anything."""
    assert llama(body, None) == (None if count is None else (Call("f", "{}"),) * count)
