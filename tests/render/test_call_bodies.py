"""What makes a call, in each way to write one."""

from typing import Any

import pytest

from gateway.render.call_bodies import Call, dsml, fenced, hermes, xml


def tools(schema, name="f"):
    """A tool whose parameter ``a`` has a schema."""
    function: dict[str, Any] = {"name": name, "parameters": {"type": "object", "properties": {"a": schema}}}
    return [{"type": "function", "function": {"name": "other"}}, {"type": "function", "function": function}]


@pytest.mark.parametrize(
    ("body", "arguments"),
    [
        (' \n{"name": "f", "arguments": {"a": "é"}}\u00a0', '{"a": "é"}'),
        ('{"arguments": {"b": 1, "a": [2]}, "name": "f", "id": 3}', '{"b": 1, "a": [2]}'),
        ('{"name": "f"}', "{}"),
        ('{"name": "f", "arguments": "{\\"a\\": 1}"}', '{"a": 1}'),
        ('{"name": "f", "arguments": "a"}', None),
        ('{"name": "f", "arguments": "{\\"a\\": 1, \\"a\\": 1}"}', None),
        *(
            (f'{{"name": "f", "arguments": {value}}}', None)
            for value in ("null", "[]", "5", '{"a": NaN}', '{"a": 1e999}')
        ),
        ('{"name": "f", "arguments": {"a": "\\ud800"}}', None),
        ('{"name": "f", "name": "f", "arguments": {}}', None),
        *((f'{{"name": {name}, "arguments": {{}}}}', None) for name in ('""', "5", "null", '"\\ud800"')),
        *((body, None) for body in ('{"arguments": {}}', "[]", "5", "", "f", '{"name": "f"', '{"name": "f"} x')),
    ],
)
def test_json_names_a_tool_and_its_arguments(body, arguments):
    """Strict JSON; all else is no call."""
    assert hermes(body, None) == (None if arguments is None else Call("f", arguments))


@pytest.mark.parametrize(
    ("body", "arguments"),
    [
        (
            "\n<function=f>\n<parameter=a>\nx\n</parameter>\n<parameter=b>\n2\n</parameter>\n</function>\n",
            '{"a": "x", "b": 2}',
        ),
        ("<function=f></function>", "{}"),
        ("<function=f>", "{}"),
        ("<function=f><parameter=a>1</parameter>", '{"a": 1}'),
        ("<function=f><parameter=a>\n\n  x\n\n</parameter></function>", '{"a": "\\n  x\\n"}'),
        ("<function=f><parameter=a></parameter></function>", '{"a": ""}'),
        ("<function=f><parameter=a><parameter=b></parameter></function>", '{"a": "<parameter=b>"}'),
        ("<function=f><parameter=a>1</parameter><parameter=a>1</parameter></function>", None),
        ("<function=f>x<parameter=a>1</parameter></function>", None),
        ("<function=f><parameter=a>1</parameter>x</function>", None),
        ("<function=f><parameter=a>1</function>", None),
        ("<function=f><parameter=>1</parameter></function>", None),
        ("<function=f></function><function=g></function>", None),
        ("<function=f></function>x", None),
        *((body, None) for body in ("", "f", "x<function=f>", "<function=>", '{"name": "f"}')),
    ],
)
def test_tags_name_a_tool_and_its_parameters(body, arguments):
    """Nothing but white space between them."""
    assert xml(body, None) == (None if arguments is None else Call("f", arguments))


SILENT: list[object] = [{}, None, 5, {"type": 5}, {"type": []}, {"type": [5]}, {"anyOf": 5}]
"""Schemas that do not tell a type."""


@pytest.mark.parametrize(
    ("schema", "text", "value"),
    [
        ({"type": "string"}, "1", '"1"'),
        ({"type": ["string"]}, "null", '"null"'),
        ({"type": ["string", "null"]}, "null", "null"),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, "1", '"1"'),
        ({"oneOf": [{"type": "string"}, {"type": "integer"}]}, "1", "1"),
        ({"oneOf": [{"type": "string"}, {"type": "integer"}]}, "x", '"x"'),
        ({"type": ["integer", "string"]}, "NaN", '"NaN"'),
        ({"type": "integer"}, " 1 ", "1"),
        ({"type": "integer"}, "x", None),
        ({"type": "integer"}, "", None),
        ({"type": "number"}, "NaN", None),
        ({"type": "object"}, '{"b": 1, "b": 2}', None),
        ({"type": "object"}, '{"b": 1}', '{"b": 1}'),
        ({"type": "string", "anyOf": [{"type": "integer"}]}, "1", '"1"'),
        ({"anyOf": [{"$ref": "#/x"}, {"type": "null"}]}, "x", '"x"'),
        ({"enum": ["x"]}, "x", '"x"'),
        ({"enum": ["x"]}, "1", '"1"'),
        ({"type": "boolean"}, "True", "true"),
        ({"type": "boolean"}, "False", "false"),
        ({"type": "boolean"}, "false", "false"),
        ({"type": "boolean"}, "yes", None),
        ({"type": ["integer", "null"]}, "None", "null"),
        ({"type": ["string", "null"]}, "None", "null"),
        ({"type": "string"}, "True", '"True"'),
        ({"type": "integer"}, "True", None),
        ({}, "True", '"True"'),
        *((schema, "x", '"x"') for schema in SILENT),
        ({"anyOf": []}, '"\\ud800"', '"\\"\\\\ud800\\""'),
        ({"anyOf": [5]}, "[1]", "[1]"),
    ],
)
def test_a_schema_tells_text_from_json(schema, text, value):
    """Declared text stays text. All else is JSON; what is none stays text where the schema does not forbid it."""
    call = xml(f"<function=f><parameter=a>{text}</parameter></function>", tools(schema))
    assert call == (None if value is None else Call("f", f'{{"a": {value}}}'))


@pytest.mark.parametrize(
    "unknown",
    [
        None,
        [],
        tools({"type": "string"}, "g"),
        [{"function": 5}],
        [{"function": {"name": "f"}}],
        [{"function": {"name": "f", "parameters": 5}}],
        [{"function": {"name": "f", "parameters": {"properties": [1]}}}],
    ],
)
def test_without_a_schema_a_parameter_is_json_or_text(unknown):
    """A call of an unknown tool is for the agent to answer."""
    body = "<function=f><parameter=a>1</parameter><parameter=b>x</parameter></function>"
    assert xml(body, unknown) == Call("f", '{"a": 1, "b": "x"}')


def test_a_tool_may_be_described_without_its_envelope():
    """As some harnesses do."""
    flat: list[dict[str, object]] = [{"name": "f", "parameters": {"properties": {"a": {"type": "string"}}}}]
    assert xml("<function=f><parameter=a>1</parameter></function>", flat) == Call("f", '{"a": "1"}')


@pytest.mark.parametrize(
    ("text", "arguments"),
    [
        ('function{sep}f\n```json\n{"a": "```"}\n```', '{"a": "```"}'),
        ('function{sep} f \n```\n{"a": 1}\n```\n', '{"a": 1}'),
        ('function{sep}f\n{"a": 1}', '{"a": 1}'),
        ("function{sep}f", "{}"),
        ("function{sep}f\n```json\n```", "{}"),
        ('function{sep}f\n"{}"', "{}"),
        ('function{sep}f\n```json\n{"a": 1}', None),
        ("function{sep}f\n```json\nnull\n```", None),
        ("function{sep}f\n```", None),
        ("function{sep}", None),
        ("function{sep}\n", None),
        ("function f\n{}", None),
        ("{sep}f\n{}", None),
        ("", None),
    ],
)
def test_a_fence_holds_the_arguments(text, arguments):
    """Behind the kind of the call, its separator and its name."""
    body = text.replace("{sep}", "<｜tool▁sep｜>")
    assert fenced(body, None) == (None if arguments is None else Call("f", arguments))


_P = '<｜DSML｜parameter name="a" string="{}">{}</｜DSML｜parameter>'


@pytest.mark.parametrize(
    ("body", "arguments"),
    [
        (' name="f">\n' + _P.format("true", "\n x \n") + "\n", '{"a": "\\n x \\n"}'),
        (' name="f">\n' + _P.format("false", "[1]") + "\n", '{"a": [1]}'),
        (' name="f">\n\n', "{}"),
        (' name="f">', "{}"),
        (' name="f">' + _P.format("true", "") * 2, None),
        (' name="f">' + _P.format("false", "x"), None),
        (' name="f">' + _P.format("", "x"), None),
        (' name="f">' + _P.format("true", "x") + "y", None),
        (' name="f">y' + _P.format("true", "x"), None),
        *((body, None) for body in (' name="">', "", ">", 'name="f">', ' name="f"')),
    ],
)
def test_a_parameter_says_itself_whether_it_is_text(body, arguments):
    """To the last space."""
    assert dsml(body, None) == (None if arguments is None else Call("f", arguments))


@pytest.mark.parametrize(
    ("read", "body"),
    [
        (hermes, '{"name": "f", "parameters": {"a": 1}}'),
        (hermes, '{"name": " f", "arguments": {}}'),
        (hermes, '{"name": " ", "arguments": {}}'),
        (xml, "<function= f ></function>"),
        (xml, "<function=f>\n<parameter=a>\n1\n<parameter=b>\n2\n</parameter>\n</function>"),
        (fenced, 'function<｜tool▁sep｜>f{"a": 1}'),
        (fenced, "function<｜tool▁sep｜>f```json\n{}\n```"),
        (
            dsml,
            ' name="f"><｜DSML｜parameter name="a" string="true"><｜DSML｜parameter name="b" string="true">2</｜DSML｜parameter>',
        ),
    ],
)
def test_what_would_be_lost_or_swallowed_makes_no_call(read, body):
    """Arguments under another key, a parameter that never closes, a name with something else in it."""
    assert read(body, None) is None
