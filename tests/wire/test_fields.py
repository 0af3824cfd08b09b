"""Every ill value is an error that names its field; ``null`` counts as absent."""

import pytest

from gateway.errors import BadRequest
from gateway.wire.fields import MAX_BYTES, MAX_DEPTH, MAX_ITEMS, Fields, parse_object

READERS = {
    "text": lambda fields: fields.text("x"),
    "integer": lambda fields: fields.integer("x", 0, 10),
    "number": lambda fields: fields.number("x", 0, 10),
    "flag": lambda fields: fields.flag("x"),
    "choice": lambda fields: fields.choice("x"),
    "one_of": lambda fields: fields.one_of("x", ("a", "b")),
    "mapping": lambda fields: fields.mapping("x"),
    "objects": lambda fields: fields.objects("x"),
    "items": lambda fields: fields.items("x"),
}


def nest(levels: int) -> dict[str, object]:
    """An object of so many levels."""
    value: dict[str, object] = {}
    for _ in range(levels - 1):
        value = {"a": value}
    return value


def refused(read, *, value: object, at: str = "") -> BadRequest:
    """The error that reading `value` raises in an object that stands at `at`."""
    with pytest.raises(BadRequest) as caught:
        read(Fields({"x": value}, at))
    return caught.value


@pytest.mark.parametrize(
    ("reader", "absent"),
    [
        ("text", None),
        ("integer", None),
        ("number", None),
        ("flag", False),
        ("choice", None),
        ("one_of", None),
        ("mapping", {}),
        ("objects", []),
        ("items", []),
    ],
)
def test_null_counts_as_absent(reader, absent):
    """Clients that serialise every field of a model send many nulls."""
    assert absent == READERS[reader](Fields({}, ""))
    assert absent == READERS[reader](Fields({"x": None}, ""))


@pytest.mark.parametrize(
    ("reader", "value"),
    [
        ("text", ""),
        ("text", "a"),
        ("integer", 0),
        ("integer", 10),
        ("number", 0),
        ("number", 10),
        ("number", 0.5),
        ("number", -0.0),
        ("flag", True),
        ("flag", False),
        ("choice", True),
        ("choice", False),
        ("one_of", "b"),
        ("mapping", {"a": [1]}),
        ("items", [1, None, "a"]),
    ],
)
def test_a_value_of_the_right_type_comes_as_it_is(reader, value):
    """Bounds are included, and a whole number is a number."""
    read = READERS[reader](Fields({"x": value}, ""))
    assert value == read
    assert type(value) is type(read)


@pytest.mark.parametrize(
    ("reader", "value", "complaint"),
    [
        ("text", 1, "must be a string"),
        ("text", False, "must be a string"),
        ("text", ["a"], "must be a string"),
        ("integer", 1.0, "must be an integer"),
        ("integer", "1", "must be an integer"),
        ("integer", True, "must be an integer"),
        ("integer", -1, "must be between 0 and 10"),
        ("integer", 11, "must be between 0 and 10"),
        ("number", "1", "must be a number"),
        ("number", True, "must be a number"),
        ("number", {}, "must be a number"),
        ("number", -0.001, "must be between 0 and 10"),
        ("number", 10.001, "must be between 0 and 10"),
        ("number", float("nan"), "must be between 0 and 10"),
        ("number", float("inf"), "must be between 0 and 10"),
        ("flag", 0, "must be a boolean"),
        ("flag", "true", "must be a boolean"),
        ("choice", 0, "must be a boolean"),
        ("one_of", "c", "must be one of a, b"),
        ("one_of", ["a"], "must be one of a, b"),
        ("mapping", [], "must be an object"),
        ("mapping", "{}", "must be an object"),
        ("mapping", nest(MAX_DEPTH + 2), f"must not be nested deeper than {MAX_DEPTH} levels"),
        ("objects", {}, "must be a list"),
        ("items", "abc", "must be a list"),
        ("items", 0, "must be a list"),
    ],
)
def test_an_ill_value_is_refused_by_the_name_of_its_field(reader, value, complaint):
    """At the top of the body, and deep inside it."""
    for at in ("", "messages[2]."):
        error = refused(READERS[reader], value=value, at=at)
        assert f"{at}x" == error.param
        assert f"{at}x {complaint}" == error.message


def test_a_text_may_have_bounds():
    """Both are included, and count characters."""
    for value in ("\u00e4", "\u00e4" * 3):
        assert value == Fields({"x": value}, "").text("x", 1, 3)
    for value in ("", "abcd"):
        error = refused(lambda fields: fields.text("x", 1, 3), value=value)
        assert "x must have between 1 and 3 characters" == error.message


@pytest.mark.parametrize("reader", ["items", "objects"])
def test_a_list_has_an_end(reader):
    """The bound is included; what is in the list is not looked at first."""
    assert 2 == len(getattr(Fields({"x": [{}, {}]}, ""), reader)("x", 2))
    assert MAX_ITEMS == len(getattr(Fields({"x": [{}] * MAX_ITEMS}, ""), reader)("x"))
    error = refused(lambda fields: getattr(fields, reader)("x", 2), value=[1, 2, 3])
    assert "x must not hold more than 2 items" == error.message
    assert "x" == refused(READERS[reader], value=[{}] * (MAX_ITEMS + 1)).param


def test_an_object_has_a_size():
    """Counted as compact JSON, in bytes."""
    value = {"a": "\u00e4"}
    assert value == Fields({"x": value}, "").mapping("x", len('{"a":"ae"}'))
    error = refused(lambda fields: fields.mapping("x", 9), value=value)
    assert "x must not be larger than 9 bytes" == error.message
    assert "x" == refused(READERS["mapping"], value={"a": "x" * MAX_BYTES}).param


def test_an_integer_has_64_bits_unless_said_otherwise():
    """What engines can take."""
    assert 2**63 - 1 == Fields({"x": 2**63 - 1}, "").integer("x", 0)
    assert "x" == refused(lambda fields: fields.integer("x", 0), value=2**63).param


def test_objects_know_where_they_stand():
    """So that an error inside one names its whole path."""
    first, second = Fields({"x": [{"y": 1}, {"y": 2}]}, "a.").objects("x")
    assert ("a.x[0].", "a.x[1].") == (first.path, second.path)
    assert (1, 2) == (first.raw("y"), second.raw("y"))


@pytest.mark.parametrize("value", [None, 1, "a", []])
def test_a_list_of_objects_refuses_anything_else_in_it(value):
    """The entry is named."""
    error = refused(READERS["objects"], value=[{}, value])
    assert "x[1]" == error.param
    assert "x[1] must be an object" == error.message


def test_the_deepest_value_allowed_is_taken():
    """Lists and objects count alike; whether an empty one inside counts is nobody's concern."""
    assert nest(MAX_DEPTH) == Fields({"x": nest(MAX_DEPTH)}, "").mapping("x")
    deep: object = 1
    for _ in range(MAX_DEPTH - 2):
        deep = [deep]
    assert {"a": deep} == Fields({"x": {"a": deep}}, "").mapping("x")
    assert "x" == refused(READERS["mapping"], value={"a": [[deep]]}).param


def test_a_wide_value_is_not_a_deep_one():
    """Siblings do not count."""
    wide = {str(i): [{"a": i}] for i in range(1000)}
    assert wide == Fields({"x": wide}, "").mapping("x")


def test_a_body_is_an_object():
    """Its fields have no prefix."""
    fields = parse_object(b' {"x": 1} ')
    assert "" == fields.path
    assert 1 == fields.raw("x")
    assert {"x": 1} == fields.whole()


@pytest.mark.parametrize("body", [b"[]", b"null", b"1", b'"{}"', b"true"])
def test_a_body_that_is_no_object_is_refused(body):
    """It is valid JSON, but no request."""
    with pytest.raises(BadRequest, match="must be a JSON object") as caught:
        parse_object(body)
    assert caught.value.param is None


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b" ",
        b"{",
        b"{'x': 1}",
        b'{"x": 1,}',
        b'{"x": NaN}',
        b'{"x": Infinity}',
        b'{"x": 1e999}',
        b'{"x": "\\ud800"}',
        b'{"x": "\\udc00\\ud800"}',
        b'{"x": "\xff"}',
        b"\xef\xbb\xbf{}",
        b'{"x": 1} {}',
        b"[" * 100_000,
        b'{"x":' * 100_000,
    ],
    ids=range(15),
)
def test_a_body_that_is_not_json_is_refused(body):
    """Python's own dialect, lone surrogates, numbers beyond all doubles and bottomless nesting included."""
    with pytest.raises(BadRequest, match="not valid JSON") as caught:
        parse_object(body)
    assert caught.value.param is None


def test_an_error_does_not_repeat_the_body():
    """Prompts never reach a log."""
    with pytest.raises(BadRequest) as caught:
        parse_object(b'{"x": "a secret", }')
    assert "secret" not in caught.value.message


def test_names_are_those_of_all_values():
    """Whether they are read or not."""
    assert list(Fields({"x": None, "y": 1}, "").names()) == ["x", "y"]
