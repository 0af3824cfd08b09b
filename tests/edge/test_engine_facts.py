"""What an engine says of itself: its context and its version."""

from contextlib import suppress

import orjson
import pytest

from gateway.errors import EngineProtocolError
from tests.edge.raw import RawServer, listening, opened


def models(body: bytes) -> bytes:
    """An answer to `/v1/models`."""
    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body)
    return head + body


@pytest.mark.parametrize(
    "body",
    [
        *(b"", b"{", b"[]", b"{}", b"null", b'{"data": []}', b'{"data": {"a": 1}}', b'{"data": [{}]}'),
        *(b'{"data": [{"max_model_len": %s}]}' % value for value in (b"null", b"true", b'"9"', b"-1", b"9.5")),
    ],
)
async def test_an_engine_must_say_its_context(body: bytes) -> None:
    """Something else that listens there is no engine, and gets no turn."""
    async with listening(RawServer(answer=models(body))) as raw, opened(raw.url) as engine:
        with suppress(EngineProtocolError):
            await engine.refresh()

        assert engine.max_model_len is None


async def test_an_engine_says_its_context_in_tokens() -> None:
    """It is remembered."""
    async with listening(RawServer()) as raw, opened(f"{raw.url}/") as engine:
        await engine.refresh()
        assert engine.max_model_len == 4096
        assert raw.requests == [b"/v1/models", b"/version"]


@pytest.mark.parametrize(
    ("said", "version"),
    [
        ("0.32.0", (0, 32)),
        ("0.20.2+cpu", (0, 20)),
        ("0.33.0rc1.dev12+g1a2b3c", (0, 33)),
        ("1.0", (1, 0)),
        ("main", None),
        ("", None),
        (32, None),
        (None, None),
    ],
)
async def test_an_engine_says_its_version(said: object, version: tuple[int, int] | None) -> None:
    """One that says none that can be read serves turns all the same."""
    both = orjson.dumps({"version": said, "data": [{"max_model_len": 4096}]})
    async with listening(RawServer(answer=models(both))) as raw, opened(raw.url) as engine:
        await engine.refresh()

        assert (engine.max_model_len, engine.version) == (4096, version)


@pytest.mark.parametrize("hangs_up", [False, True])
async def test_an_engine_that_does_not_know_its_version_serves_turns(hangs_up: bool) -> None:
    """Its models are what counts, also where the other question ends the connection."""
    async with listening(RawServer(serves=1, hangs_up=hangs_up)) as raw, opened(raw.url) as engine:
        await engine.refresh()

        assert (engine.max_model_len, engine.version) == (4096, None)


async def test_the_version_is_asked_for_again_with_the_context() -> None:
    """An engine that was away may be another when it is back."""
    async with (
        listening(RawServer(answer=models(b'{"data": [{"max_model_len": 9}]}'))) as raw,
        opened(raw.url) as engine,
    ):
        engine.version = (0, 32)
        await engine.refresh()

        assert engine.max_model_len == 9
        assert engine.version is None


async def test_adapters_do_not_hide_the_context() -> None:
    """VLLM lists LoRA adapters beside their model, with a null for their context."""
    body = b'{"data": [{"id": "base", "max_model_len": 4096}, {"id": "lora", "parent": "base", "max_model_len": null}]}'
    async with listening(RawServer(answer=models(body))) as raw, opened(raw.url) as engine:
        await engine.refresh()

        assert engine.max_model_len == 4096
