"""The HTTP surface: routes, bodies, and errors in OpenAI's shape."""

import asyncio
import gzip

import orjson
import pytest
from aiohttp import ClientPayloadError

from gateway.sim.server import ENGINE
from tests.edge.house import HELLO, House, OpenHouse, Words
from tests.edge.routes import ADMIN_ROUTES, AGENT_ROUTES, KEYS, OPEN_ROUTES, bearer

CHAT = orjson.dumps({"messages": HELLO})


async def test_a_body_over_the_limit_is_413(open_house: OpenHouse) -> None:
    """In OpenAI's shape, naming the setting; and the connection serves on."""
    house = await open_house(max_body_bytes=2048)
    big = orjson.dumps({"messages": [{"role": "user", "content": "x" * 4096}]})

    for _ in range(2):
        answer = await house.call("POST", "/v1/chat/completions", data=big)
        assert answer.status == 413
        assert answer.error["code"] == "request_too_large"
        assert "--max-body-bytes" in answer.error["message"]
    assert (await house.ask("s")).status == 200


async def test_a_compressed_body_is_read(house: House, words: Words) -> None:
    """Agents that re-send long histories may gzip them."""
    body = {"messages": HELLO, "vllm_xargs": {"script": words.said("Hi.")}}
    data = gzip.compress(orjson.dumps(body))

    answer = await house.call("POST", "/v1/chat/completions", data=data, headers={"Content-Encoding": "gzip"})

    assert answer.status == 200
    assert answer.message["content"] == "Hi."


async def test_a_compressed_body_over_the_limit_is_413(open_house: OpenHouse) -> None:
    """What counts is its size when it is unpacked."""
    house = await open_house(max_body_bytes=2048)
    data = gzip.compress(orjson.dumps({"messages": [{"role": "user", "content": "x" * 100_000}]}))
    assert len(data) < 2048

    answer = await house.call("POST", "/v1/chat/completions", data=data, headers={"Content-Encoding": "gzip"})

    assert answer.status == 413
    assert answer.error["code"] == "request_too_large"


async def test_a_body_that_is_not_what_its_encoding_says_is_the_callers_fault(house: House) -> None:
    """400 in OpenAI's shape, not a failure of ours."""
    answer = await house.call("POST", "/v1/chat/completions", data=CHAT, headers={"Content-Encoding": "gzip"})

    assert answer.status == 400
    assert answer.error["type"] == "invalid_request_error"
    assert answer.headers["x-request-id"]


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'"x"', b"\xff", b'{"messages": []}', b'{"messages": 1}'])
async def test_a_body_that_is_no_request_is_400(house: House, body: bytes) -> None:
    """In OpenAI's shape; it leaves no session."""
    answer = await house.call("POST", "/sessions/s/v1/chat/completions", data=body)

    assert answer.status == 400
    assert answer.error["type"] == "invalid_request_error"
    assert await house.turns("s") == []


@pytest.mark.parametrize(
    "path", ["/", "/nothing", "/v1/nothing", "/sessions/s", "/sessions//turns", "/v1/chat/completions/"]
)
async def test_an_unknown_route_is_404(house: House, path: str) -> None:
    """In OpenAI's shape."""
    answer = await house.call("GET", path)

    assert answer.status == 404
    assert answer.error["type"] == "not_found_error"


@pytest.mark.parametrize("path", ["/v1/completions", "/sessions/s/v1/responses", "/v1/messages", "/chat/completions"])
async def test_who_speaks_another_dialect_is_told_where_turns_are_taken(house: House, path: str) -> None:
    answer = await house.send("POST", path, model="sim")

    assert answer.status == 404
    assert answer.error["message"].endswith("turns are taken at /v1/chat/completions")


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("GET", "/v1/chat/completions", "POST"),
        ("DELETE", "/v1/models", "GET"),
        ("POST", "/sessions/s/turns", "GET"),
        ("PUT", "/sessions/s/v1/chat/completions", "POST"),
    ],
)
async def test_a_wrong_method_is_405(house: House, method: str, path: str, allowed: str) -> None:
    """In OpenAI's shape; `Allow` says what would do, as RFC 9110 demands."""
    answer = await house.call(method, path)

    assert answer.status == 405
    assert answer.error["type"] == "invalid_request_error"
    assert allowed in answer.headers.get("Allow", "")


async def test_the_engines_models_are_relayed(house: House) -> None:
    """As the engine lists them, with and without a session; nothing is recorded."""
    for path in ("/v1/models", "/sessions/s/v1/models"):
        answer = await house.call("GET", path)
        assert answer.status == 200
        assert [(model["id"], model["max_model_len"]) for model in answer.body["data"]] == [("sim", 40960)]
    assert await house.turns("s") == []


@pytest.mark.parametrize("what", ["turns", "trajectories"])
async def test_an_unknown_session_is_404(house: House, what: str) -> None:
    """With a code of its own, apart from unknown routes."""
    answer = await house.call("GET", f"/sessions/nobody/{what}")

    assert answer.status == 404
    assert answer.error["code"] == "session_not_found"


@pytest.mark.parametrize("cursor", ["x", "-1", "1", "1.5.0", "٣.0", "9" * 20])
async def test_a_cursor_that_is_none_of_ours_is_400(house: House, cursor: str) -> None:
    """Not a failure, and not the first page."""
    await house.ask("s")
    for what in ("turns", "trajectories"):
        url = house.http.make_url(f"/sessions/s/{what}").with_query(cursor=cursor)

        answer = await house.call("GET", url.raw_path_qs)

        assert answer.status == 400
        assert answer.error["param"] == "cursor"


async def exchanged(house: House, *requests: bytes) -> bytes:
    """All that comes back on one connection for these requests, sent at once; the last one closes it."""
    reader, writer = await asyncio.open_connection(house.http.server.host, house.http.server.port)
    lines = [request + b" HTTP/1.1\r\nHost: x\r\n" for request in requests]
    writer.write(b"\r\n".join(lines) + b"Connection: close\r\n\r\n")
    try:
        return await asyncio.wait_for(reader.read(), 5)
    finally:
        writer.close()
        await writer.wait_closed()


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/sessions/s/turns", 405),
        ("/sessions/s/trajectories", 405),
        ("/sessions/s", 200),
        ("/sessions", 200),
        ("/v1/models", 200),
        ("/metrics", 200),
        ("/health", 200),
        ("/sessions/none", 404),
    ],
)
async def test_an_answer_to_head_has_no_body(house: House, path: str, status: int) -> None:
    """Or the connection would carry it into the next answer."""
    await house.ask("s")

    answer = await exchanged(house, f"HEAD {path}".encode(), b"GET /ready")

    first, _, rest = answer.partition(b"\r\n\r\n")
    assert first.startswith(f"HTTP/1.1 {status} ".encode())
    assert rest.startswith(b"HTTP/1.1 200 OK\r\n")
    assert rest.endswith(b'{"status": "ready"}')


async def test_every_answer_carries_its_request_id(open_house: OpenHouse) -> None:
    """Errors, lists, streams and probes: the client's own, cut where it is very long, or else a new one each time."""
    locked = await open_house(**KEYS, max_body_bytes=2048)
    admin = bearer(KEYS["admin_key"])
    asked = [
        *((method, path, CHAT if method == "POST" else None) for method, path in AGENT_ROUTES + ADMIN_ROUTES),
        *((method, path, None) for method, path in OPEN_ROUTES),
        ("GET", "/nothing", None),
        ("PUT", "/v1/chat/completions", None),
        ("POST", "/v1/chat/completions", b"{"),
        ("POST", "/v1/chat/completions", b"x" * 4096),
        ("POST", "/sessions", None),
        ("GET", "/sessions", None),
        ("GET", "/sessions/none", None),
        ("DELETE", "/sessions/s", None),
    ]
    minted = set()
    for method, path, data in asked:
        own = await locked.call(method, path, data=data, headers={**admin, "X-Request-Id": "r" * 130})
        new = await locked.call(method, path, data=data, headers=admin)
        assert own.headers.getall("x-request-id") == ["r" * 128]
        minted.add(new.headers["x-request-id"])
    minted.add((await locked.call("GET", "/metrics")).headers["x-request-id"])
    assert len(minted) == len(asked) + 1


async def test_a_request_id_that_no_header_can_carry_is_no_failure(house: House) -> None:
    """It is replaced or cleaned; a client's odd header is not our failure."""
    answer = await raw_request(
        house, b"X-Request-Id: caf\xe9\xff\r\n", orjson.dumps({"messages": HELLO, "max_tokens": 4})
    )

    assert b" 200 " in answer.partition(b"\r\n")[0]


async def raw_request(house: House, header: bytes, body: bytes) -> bytes:
    """The whole answer to a chat request with a header that no client library would write."""
    server = house.http.server
    reader, writer = await asyncio.open_connection(server.host, server.port)
    head = b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
    writer.write(head + header + b"Content-Length: %d\r\n\r\n" % len(body) + body)
    try:
        return await asyncio.wait_for(reader.read(), 5)
    finally:
        writer.close()
        await writer.wait_closed()


async def test_template_arguments_reach_the_template(house: House, words: Words) -> None:
    """`enable_thinking: false` closes the thinking in the prompt itself."""
    await house.ask("s", HELLO, words.said("Hi."))
    answer = await house.ask("s", HELLO, words.said("Hi."), chat_template_kwargs={"enable_thinking": False})

    assert answer.status == 200
    assert answer.message["content"] == "Hi."
    thinking, without = (words.text(prompt) for prompt in house.prompts)
    assert "</think>" not in thinking
    assert without.endswith("<think>\n\n</think>\n\n")


async def test_a_template_argument_that_the_renderer_does_not_know_is_400(house: House) -> None:
    """It would change nothing, silently; no engine is asked."""
    answer = await house.ask("s", chat_template_kwargs={"enable_thinkin": False})

    assert answer.status == 400
    assert answer.error["param"] == "chat_template_kwargs"
    assert house.journal == []


async def test_a_prompt_that_leaves_no_room_is_context_length_exceeded(open_house: OpenHouse) -> None:
    """Harnesses compact their history on this code; no engine is asked and no session is left."""
    house = await open_house(sim={"max_model_len": 64})

    for text in ("word " * 100, "x" * 1_000_000):
        answer = await house.ask("s", [{"role": "user", "content": text}])
        assert answer.status == 400
        assert answer.error["code"] == "context_length_exceeded"
    assert house.journal == []
    assert await house.turns("s") == []
    assert await house.metric("gateway_turns_in_flight") == 0


async def test_an_engine_that_finds_the_prompt_too_long_is_understood(open_house: OpenHouse) -> None:
    """The same code when the engine is the one to say so."""
    house = await open_house(sim={"max_model_len": 64})
    object.__setattr__(house.sim[ENGINE], "max_model_len", 8)

    answer = await house.ask("s", HELLO)

    assert answer.status == 400
    assert answer.error["code"] == "context_length_exceeded"
    assert await house.turns("s") == []


async def test_what_the_engine_refuses_is_relayed_without_what_it_echoes(house: House) -> None:
    """Its status and its words, but no model of ours."""
    answer = await house.ask("s", HELLO, model="another")

    assert answer.status == 404
    assert answer.error["code"] == "engine_refused"
    assert "another" in answer.error["message"]
    assert await house.turns("s") == []


async def test_an_export_that_fails_halfway_does_not_look_like_one(
    house: House, words: Words, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its connection breaks, so that nobody takes a part for the whole; the next request is served."""
    await house.ask("s", HELLO, words.said("Hi."))
    monkeypatch.setattr("gateway.edge.trajectories.told_turn", lambda _turn, _fate: {"not": object()})
    with pytest.raises(ClientPayloadError):
        await house.turns("s")
    monkeypatch.undo()

    assert len(await house.turns("s")) == 1
