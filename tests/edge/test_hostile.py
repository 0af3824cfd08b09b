"""Malformed and hostile requests: each is refused in OpenAI's shape, soon, and leaves nothing behind."""

import gzip
import time
import zlib
from contextlib import suppress

import orjson
import pytest

from tests.edge.house import HELLO, House, Json

pytestmark = pytest.mark.process  # much work: beside the gate

PATH = "/sessions/s/v1/chat/completions"
NEST = 100_000
BOMB_BYTES = 80 << 20
SLACK_S = 1.0
"""CPU time beyond a normal call and the parse of the body; coverage makes ours cost three times what it does. What
these requests cost before they were bounded was two seconds to a minute."""


def asks(**fields: object) -> bytes:
    """A request, good but for these fields."""
    return orjson.dumps({"messages": HELLO, **fields})


def says(*messages: object) -> bytes:
    """A request of these messages."""
    return orjson.dumps({"messages": messages})


def calls(**call: object) -> bytes:
    """A request in which the assistant called a tool, in an odd way."""
    return says(*HELLO, {"role": "assistant", "tool_calls": [{"id": "c", "type": "function", **call}]})


def raw(field: str) -> bytes:
    """A request with a field that no JSON writer would write."""
    return b'{"messages": [{"role": "user", "content": "x"}], ' + field.encode() + b"}"


def offers(**function: object) -> Json:
    """A tool."""
    return {"type": "function", "function": {"name": "f", **function}}


BODIES = {
    # No JSON, or none that can be trusted
    "nothing": b"",
    "cut short": asks()[:-3],
    "two values": asks() + asks(),
    "an array": b"[" + asks() + b"]",
    "a string": orjson.dumps(asks().decode()),
    "a number": b"1e400",
    "invalid UTF-8": b'{"messages": [{"role": "user", "content": "\xff\xfe"}]}',
    "overlong UTF-8": b'{"messages": [{"role": "user", "content": "\xc0\xaf"}]}',
    "UTF-16": asks().decode().encode("utf-16"),
    "a byte order mark": b"\xef\xbb\xbf" + asks(),
    "a zero byte": asks() + b"\0",
    "a raw control character": b'{"messages": [{"role": "user", "content": "\x01"}]}',
    "a lone surrogate": b'{"messages": [{"role": "user", "content": "\\ud800"}]}',
    "surrogates in the wrong order": b'{"messages": [{"role": "user", "content": "\\udc00\\ud800"}]}',
    "NaN": raw('"temperature": NaN'),
    "infinity": raw('"temperature": -Infinity'),
    "a number beyond all doubles": raw('"temperature": 1e999'),
    "an integer of ten thousand digits": raw('"seed": ' + "9" * 10_000),
    "an integer of 65 bits": raw('"max_tokens": 18446744073709551616'),
    "open brackets": b"[" * NEST,
    "open objects": b'{"messages":' * NEST,
    "deep nesting": raw('"x": ' + "[" * NEST + "]" * NEST),
    "a form": b"messages=hello&model=m",
    # Equal keys: the last wins, so an ill one cannot hide behind a good one
    "an ill duplicate": raw('"messages": 1'),
    "an ill duplicate deep inside": b'{"messages": [{"role": "user", "content": "x", "role": "root"}]}',
    # Objects for arrays, and so on
    "messages that are an object": asks(messages={"role": "user"}),
    "messages that are text": asks(messages="hello"),
    "no messages": asks(messages=[]),
    "null messages": asks(messages=None),
    "a message that is text": says("hello"),
    "a message that is a list": says(HELLO),
    "a message without a role": says({"content": "x"}),
    "a role that is nobody's": says({"role": "root", "content": "x"}),
    "a role that is a list": says({"role": ["user"], "content": "x"}),
    "a role in capitals": says({"role": "SYSTEM", "content": "x"}),
    "content that is an object": says({"role": "user", "content": {"type": "text", "text": "x"}}),
    "content that is a number": says({"role": "user", "content": 1}),
    "a part that is text": says({"role": "user", "content": ["x"]}),
    "a part of no type": says({"role": "user", "content": [{"text": "x"}]}),
    "a part of an odd type": says({"role": "user", "content": [{"type": {"type": "text"}}]}),
    "an image": says({"role": "user", "content": [{"type": "image_url", "image_url": {"url": "file:///etc/passwd"}}]}),
    "a million parts": says({"role": "user", "content": [{"type": "text"}] * 1_000_000}),
    "a million messages": says(*[{}] * 1_000_000),
    "an answer to no call": says(*HELLO, {"role": "tool", "content": "x"}),
    "an answer to a number": says(*HELLO, {"role": "tool", "content": "x", "tool_call_id": 1}),
    "calls that are an object": says(*HELLO, {"role": "assistant", "tool_calls": {"id": "c"}}),
    "a call of nothing": calls(),
    "a call without a name": calls(function={"arguments": "{}"}),
    "a call whose arguments are a list": calls(function={"name": "f", "arguments": []}),
    "a call whose id is an object": calls(id={}, function={"name": "f"}),
    "a name of a megabyte": calls(function={"name": "f" * 1_000_000}),
    # Fields out of bounds
    "a model that is a list": asks(model=["m"]),
    "a model of a megabyte": asks(model="m" * 1_000_000),
    "a negative limit": asks(max_tokens=-1),
    "a limit in words": asks(max_tokens="many"),
    "more at least than at most": asks(min_tokens=2**62, max_tokens=1),
    "a temperature in words": asks(temperature="hot"),
    "a temperature that is true": asks(temperature=True),
    "an endless temperature": asks(temperature=1e308),
    "a million choices": asks(n=1_000_000),
    "a stop of nothing": asks(stop=""),
    "a thousand stops": asks(stop=[str(i) for i in range(1000)]),
    "a stop of a megabyte": asks(stop="x" * 1_000_000),
    "stops that are numbers": asks(stop=[1]),
    "nested stops": asks(stop=[["x"]]),
    "a bias for no token": asks(logit_bias={"hello": 1}),
    "a bias for a token of a thousand digits": asks(logit_bias={"9" * 1000: 1}),
    "a bias for every token": asks(logit_bias={str(i): 1 for i in range(100_000)}),
    "a bias beyond bounds": asks(logit_bias={"1": 1e300}),
    "ten thousand tools": asks(tools=[offers()] * 10_000),
    "a tool without a name": asks(tools=[{"type": "function", "function": {}}]),
    "a tool that is a list": asks(tools=[[]]),
    "a schema that is text": asks(tools=[offers(parameters="{}")]),
    "a schema without a bottom": raw(
        '"tools": [{"type": "function", "function": {"name": "f", "parameters": '
        + '{"a":' * 500
        + "1"
        + "}" * 500
        + "}}]"
    ),
    "a schema of two megabytes": asks(tools=[offers(parameters={"x": "x" * 2_000_000})]),
    "template arguments that are text": asks(chat_template_kwargs="{}"),
    "template arguments that nobody knows": asks(chat_template_kwargs={"messages": [], "tokenize": False}),
    "template arguments of a megabyte": asks(chat_template_kwargs={"enable_thinking": "x" * 1_000_000}),
    "engine arguments without a bottom": raw('"vllm_xargs": ' + '{"a":' * 500 + "1" + "}" * 500),
    "a session id of a megabyte": asks(session_id="s" * 1_000_000),
    "a priority beyond 64 bits": raw('"priority": -9223372036854775809'),
    # More than any context holds
    "a novel": says({"role": "user", "content": "word " * 1_000_000}),
    "a scream": says({"role": "user", "content": "a" * 3_000_000}),
    "ten thousand small messages": says(*HELLO * 10_000),
    "a call that is a novel": calls(function={"name": "f", "arguments": '"' + "word " * 1_000_000 + '"'}),
    "tools that are a library": asks(tools=[offers(description="word " * 10_000)] * 100),
}
NAMES = list(BODIES)
GATEWAYS = 8
"""To open one for each body takes longer than all bodies do."""


async def refused(house: House, data: bytes, path: str = PATH, **headers: str) -> Json:
    """The error of a refusal that left nothing behind: no turn, no session, no call to an engine."""
    asked = len(house.journal)
    answer = await house.call(
        "POST", path, data=data, headers={name.replace("_", "-"): v for name, v in headers.items()}
    )
    assert 400 <= answer.status < 500, answer.body
    assert answer.error["type"]
    assert len(answer.error["message"]) < 1000
    assert len(answer.error["param"] or "") < 200
    assert await house.turns("s") == []
    assert len(house.journal) == asked
    assert await house.metric("gateway_turns_in_flight") == 0
    return {**answer.error, "status": answer.status}


async def cpu_of(house: House, data: bytes) -> float:
    """Processor seconds that all sides together spend on a call."""
    began_s = time.process_time()
    await house.call("POST", PATH, data=data)
    return time.process_time() - began_s


def parse_of(data: bytes) -> float:
    """Processor seconds that the parse of a body takes."""
    began_s = time.process_time()
    with suppress(orjson.JSONDecodeError):
        orjson.loads(data)
    return time.process_time() - began_s


@pytest.mark.parametrize("names", [NAMES[nth::GATEWAYS] for nth in range(GATEWAYS)], ids=range(GATEWAYS))
async def test_a_body_that_asks_for_nothing_sensible_is_refused(small: House, names: list[str]) -> None:
    """4xx in OpenAI's shape, nothing recorded, no engine asked, and no slower than its parse demands.

    A body that is too long may cost as much as one that just fits: a second for the context of these tests.
    """
    normal_s = await cpu_of(small, asks(messages=1))
    for name in names:
        error = await refused(small, BODIES[name])
        spent_s = await cpu_of(small, BODIES[name])

        assert error["status"] == 400, name
        assert spent_s < normal_s + 4 * parse_of(BODIES[name]) + SLACK_S, name


def test_there_are_forty_of_them() -> None:
    """At least; no two are alike."""
    assert len(set(BODIES.values())) == len(BODIES) >= 40


async def test_of_equal_keys_the_last_wins(small: House) -> None:
    """What is recorded is what the last one says, as everywhere: no reader of the turn sees another."""
    data = b'{"messages": [{"role": "root"}], "messages": [{"role": "user", "content": "x"}], "max_tokens": 1}'

    answer = await small.call("POST", "/sessions/t/v1/chat/completions", data=data)

    assert answer.status == 200
    assert len(await small.turns("t")) == 1


@pytest.mark.parametrize(
    "kind",
    [
        "text/plain",
        "text/html",
        "application/xml",
        "multipart/form-data; boundary=x",
        "application/x-www-form-urlencoded",
    ],
)
async def test_a_body_that_is_said_to_be_no_json_is_415(small: House, kind: str) -> None:
    """Even if it is; the message says which header to send."""
    error = await refused(small, asks(), Content_Type=kind)

    assert error["status"] == 415
    assert "application/json" in error["message"]


@pytest.mark.parametrize("kind", ["application/json; charset=utf-8", "APPLICATION/JSON", "application/vnd.api+json"])
async def test_json_by_any_name_is_read(small: House, kind: str) -> None:
    """With its parameters, in any case."""
    answer = await small.call("POST", "/sessions/t/v1/chat/completions", data=asks(), headers={"Content-Type": kind})

    assert answer.status == 200


@pytest.mark.parametrize(("encoding", "pack"), [("gzip", gzip.compress), ("deflate", zlib.compress)])
async def test_a_bomb_is_413_before_it_has_gone_off(small: House, encoding: str, pack) -> None:
    """What counts is the size unpacked, and what is over the limit is not unpacked."""
    bomb = pack(b" " * BOMB_BYTES)
    assert len(bomb) < BOMB_BYTES // 500
    began_s = time.process_time()
    zlib.decompress(bomb, wbits=47)
    whole_s = time.process_time() - began_s

    error = await refused(small, bomb, Content_Encoding=encoding)
    began_s = time.process_time()
    await refused(small, bomb, Content_Encoding=encoding)
    spent_s = time.process_time() - began_s

    assert error["status"] == 413
    assert error["code"] == "request_too_large"
    assert spent_s < whole_s / 2 + SLACK_S


@pytest.mark.parametrize(
    "data",
    [
        asks(),
        gzip.compress(asks())[:-12],
        gzip.compress(asks())[:20],
        b"\x1f\x8b" + b"\xff" * 100,
        gzip.compress(gzip.compress(asks())),
        gzip.compress(b""),
    ],
    ids=["plain", "no end", "cut", "noise", "twice", "empty"],
)
async def test_gzip_that_is_none_is_400(small: House, data: bytes) -> None:
    """Whatever of it could be unpacked is not believed."""
    assert (await refused(small, data, Content_Encoding="gzip"))["status"] == 400


@pytest.mark.parametrize(
    "name", ["turns", "..", "a//b", "a/v1/b", "x" * 2000, "a\u2028b", "a\u202eb", "<img src=x onerror=alert(1)>\t"]
)
async def test_an_absurd_session_id_is_refused(small: House, name: str) -> None:
    """In the body, where anything can stand."""
    error = await refused(small, asks(session_id=name), "/v1/chat/completions")

    assert error["param"] == "session_id"
