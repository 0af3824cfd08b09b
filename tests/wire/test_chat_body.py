"""What is described of chat requests is what is read of them."""

from collections.abc import Callable

import orjson
import pytest

from gateway.wire import chat
from gateway.wire.fields import Fields
from tests.wire.bodies import Json, differing, fields_of, is_read

FUNCTION = {"type": "function", "function": {"name": "f"}}
WHOLE: Json = {"messages": [{"role": "user", "content": "x"}], "tools": [FUNCTION], "logprobs": True}
ASKS_FOR_NOTHING = {"response_format", "structured_outputs", "repetition_detection"}
"""Empty ones are read, and described is what asks for something."""
OLDER = {"stop_token_ids", "functions", "function_call", *(f"guided_{kind}" for kind in ("json", "regex", "choice"))}
OLDER |= {"guided_grammar"}
"""Looked for, so that they can be refused."""


def test_a_request_is_described_as_it_is_read():
    """For each field and each value of another kind, at its bounds and beyond."""
    for body, read in differing("ChatRequest", chat.decode, WHOLE):
        ((field, value),) = body.items()
        assert read, f"described, and refused: {body}"
        assert field in ASKS_FOR_NOTHING, f"read, and not described: {body}"
        assert "type" not in value


def message(said: bytes) -> object:
    """Read one message, behind another one."""
    return chat.decode(orjson.dumps({"messages": [{"role": "user", "content": "x"}, orjson.loads(said)]}))


def called(said: bytes) -> object:
    """Read one call of an earlier answer."""
    return message(orjson.dumps({"role": "assistant", "tool_calls": [orjson.loads(said)]}))


def called_function(said: bytes) -> object:
    """Read what is called."""
    return called(orjson.dumps({"id": "c", "function": orjson.loads(said)}))


def part(said: bytes) -> object:
    """Read a part of a message."""
    return message(orjson.dumps({"role": "user", "content": [orjson.loads(said)]}))


def tool(said: bytes) -> object:
    """Read a tool."""
    return chat.decode(orjson.dumps({**WHOLE, "tools": [orjson.loads(said)]}))


def function(said: bytes) -> object:
    """Read what a tool is."""
    return tool(orjson.dumps({"type": "function", "function": orjson.loads(said)}))


@pytest.mark.parametrize(
    ("name", "decode", "base", "but"),
    [
        ("SaidMessage", message, {"role": "user"}, set()),
        ("ToolMessage", message, {"role": "tool", "tool_call_id": "c"}, set()),
        ("ReplayedAnswer", message, {"role": "assistant"}, set()),
        ("ReplayedCall", called, {"function": {"name": "f"}}, {"type"}),
        ("CalledFunction", called_function, {"name": "f"}, set()),
        ("TextPart", part, {"type": "text"}, set()),
        ("Tool", tool, FUNCTION, set()),
        ("Function", function, {"name": "f"}, set()),
    ],
)
def test_its_parts_are_described_as_they_are_read(
    name: str, decode: Callable[[bytes], object], base: Json, but: set[str]
):
    """What a call of an earlier answer says of its type is not read."""
    assert [body for body, _ in differing(name, decode, base) if not body.keys() <= but] == []


@pytest.mark.parametrize("role", ["system", "developer", "user", "assistant"])
def test_every_role_is_read(role: str):
    """A tool's needs to say which call it answers."""
    assert is_read(message, {"role": role, "content": "x"})
    assert not is_read(message, {"role": "tool", "content": "x"})


def test_every_field_that_is_read_is_described(monkeypatch: pytest.MonkeyPatch):
    """Or is an older word, which is refused."""
    read = set()
    raw = Fields.raw

    def noted(fields: Fields, name: str) -> object:
        if not fields.path:
            read.add(name)
        return raw(fields, name)

    monkeypatch.setattr(Fields, "raw", noted)
    chat.decode(orjson.dumps(WHOLE))

    assert read - OLDER == fields_of("ChatRequest")
    assert read >= OLDER
    assert all(not is_read(chat.decode, {**WHOLE, name: ["x"]}) for name in OLDER)
