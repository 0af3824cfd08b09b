"""One engine over HTTP: connections that went stale, answers that are none, and calls that are left."""

import asyncio
from collections.abc import Callable
from contextlib import aclosing

import orjson
import pytest

from gateway.edge.engine import Engine
from gateway.errors import EngineProtocolError, EngineUnavailable, GatewayError
from gateway.sim import FAULTS, JOURNAL, create_sim
from gateway.wire.probe import LogprobsFinding
from tests.edge.house import Application, OpenHouse, serving, until
from tests.edge.raw import BODY, RawServer, listening, opened, payloads


async def test_the_connection_of_a_finished_call_is_used_again() -> None:
    """A turn costs no handshake while the engine keeps connections."""
    async with listening(RawServer()) as raw, opened(raw.url) as engine:
        for _ in range(5):
            assert (await payloads(engine))[-1] == b"[DONE]"

    assert raw.connections == 1
    assert raw.generated == 5


async def test_a_pooled_connection_that_the_server_closed_meanwhile_is_no_failure() -> None:
    """The next call makes a new one."""
    async with listening(RawServer(serves=1, hangs_up=True)) as raw, opened(raw.url) as engine:
        for _ in range(3):
            assert (await payloads(engine))[-1] == b"[DONE]"

    assert raw.connections == 3
    assert raw.generated == 3


async def test_a_pooled_connection_that_breaks_under_a_call_is_tried_once_more() -> None:
    """Nothing had been answered, so nothing that was sampled is lost."""
    async with listening(RawServer(serves=1)) as raw, opened(raw.url) as engine:
        await payloads(engine)
        assert (await payloads(engine))[-1] == b"[DONE]"

    assert raw.connections == 2
    assert raw.generated == 3


async def test_a_fresh_connection_that_breaks_is_not_tried_again() -> None:
    """That is no stale connection but a broken engine."""
    async with listening(RawServer(serves=0)) as raw, opened(raw.url) as engine:
        with pytest.raises(EngineUnavailable, match="the engine at"):
            await payloads(engine)

    assert raw.generated == 1


async def test_an_engine_is_doubted_when_a_connection_breaks_until_it_answers() -> None:
    """Nothing proves that the server is still there."""
    async with listening(RawServer(serves=0)) as raw, opened(raw.url) as engine:
        with pytest.raises(EngineUnavailable):
            await payloads(engine)
        assert engine.doubted
        raw.serves = 9
        assert await engine.refresh()
        assert not engine.doubted


async def test_a_stream_ends_with_its_last_event_though_the_connection_stays_open() -> None:
    """An answer that is whole is not held back for an engine that forgets to close."""
    events = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
    events += b"e\r\ndata: [DONE]\n\n\r\n"
    async with listening(RawServer(answer=events)) as raw, opened(raw.url) as engine:
        async with asyncio.timeout(5):
            assert await payloads(engine) == [b"[DONE]"]


async def test_a_call_reaches_an_engine_twice_at_most() -> None:
    """A prompt that brings a server down must not be sent to it again for each connection in the pool."""
    async with listening(RawServer(serves=1)) as raw, opened(raw.url) as engine:
        raw.meeting = asyncio.Barrier(3)
        await asyncio.gather(*(payloads(engine) for _ in range(3)))
        raw.meeting, before = None, raw.generated
        await payloads(engine)

        assert raw.generated - before == 2


async def test_a_pool_of_stale_connections_costs_no_call() -> None:
    """After an engine's restart all of its connections are stale, not only the first that is tried."""
    async with listening(RawServer(serves=1)) as raw, opened(raw.url) as engine:
        raw.meeting = asyncio.Barrier(3)
        await asyncio.gather(*(payloads(engine) for _ in range(3)))
        raw.meeting = None
        assert raw.connections == 3

        assert (await payloads(engine))[-1] == b"[DONE]"


async def test_a_call_through_the_gateway_survives_a_stale_connection(open_house: OpenHouse) -> None:
    """The client notices nothing."""
    async with listening(RawServer(serves=2)) as raw:
        house = await open_house(engine=(raw.url,))
        answers = [await house.ask("s") for _ in range(6)]

        assert [answer.status for answer in answers] == [200] * 6
        assert len(await house.turns("s")) == 6
        await house.http.close()


@pytest.mark.parametrize(
    ("answer", "error", "says"),
    [
        (
            b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}",
            EngineProtocolError,
            "application/json",
        ),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}", EngineProtocolError, "octet-stream"),
        (b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 6\r\n\r\n<html>", EngineUnavailable, "502"),
        (b"HTTP/1.1 404 Not Found\r\nContent-Length: 6\r\n\r\n<html>", EngineProtocolError, "--enable-scale-out"),
        (b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 2\r\n\r\n{}", EngineProtocolError, "--engine-key"),
        (b"SSH-2.0-OpenSSH_9.6\r\n\r\n", EngineUnavailable, "the engine at"),
        (
            b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: 99\r\n\r\ndata: [DO",
            None,
            "the engine at",
        ),
        (
            b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
            None,
            "the engine at",
        ),
    ],
)
async def test_whatever_answers_a_call_fails_as_an_engine_does(
    answer: bytes, error: type[GatewayError] | None, says: str
) -> None:
    """A proxy, another service, half an answer: an error that says what came, or what to do."""
    raw = RawServer(serves=1, hangs_up=True, answer=answer)
    async with listening(raw), opened(raw.url) as engine:
        with pytest.raises(error or EngineUnavailable) as failed:
            await payloads(engine)

    assert says in str(failed.value)


async def test_the_engines_key_is_shown_with_each_call() -> None:
    """As vLLM's --api-key wants it."""
    sim = create_sim()
    async with serving(sim) as server, opened(str(server.make_url("")), key="hush") as engine:
        await payloads(engine)

    (entry,) = sim[JOURNAL].entries
    assert entry.headers["authorization"] == "Bearer hush"
    assert entry.request_id == "r"


async def left_after(sim: Application, first: Callable[[], bool]) -> None:
    """Leave a call once `first` holds, and wait until the engine has noticed."""
    async with serving(sim) as server, opened(str(server.make_url(""))) as engine:
        task = asyncio.ensure_future(payloads(engine))
        await until(first)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await until(lambda: sim[JOURNAL].running == 0)

        assert task.cancelled()
        assert sim[JOURNAL].entries[0].disconnected


@pytest.mark.parametrize("after", [0, 2])
async def test_leaving_a_call_closes_its_socket(after: int) -> None:
    """Which is what makes vLLM stop sampling, be it before the first token or later."""
    sim = create_sim()
    sim[FAULTS].inject("stall", after=after)

    await left_after(sim, lambda: bool(sim[JOURNAL].entries) and len(sim[JOURNAL].entries[0].emitted) == after)


async def test_a_reader_that_stops_half_way_closes_the_socket_too() -> None:
    """As the turn does when an event cannot be believed."""
    sim = create_sim(token_delay_s=0.01)
    async with serving(sim) as server, opened(str(server.make_url(""))) as engine:
        async with aclosing(engine.generate(BODY, request_id="r")) as events:
            async for _ in events:
                break

        await until(lambda: sim[JOURNAL].running == 0)
        assert sim[JOURNAL].entries[0].disconnected


async def test_an_engine_that_was_never_called_can_be_closed() -> None:
    """There is nothing to close."""
    await Engine("http://127.0.0.1:1").close()


@pytest.mark.parametrize("url", ["http://127.0.0.1:1", "http://256.256.256.256", "nonsense", "ftp://127.0.0.1"])
async def test_an_engine_that_cannot_be_reached_is_unavailable(url: str) -> None:
    """Whatever stands in the way; the error names the engine."""
    async with opened(url) as engine:
        with pytest.raises(EngineUnavailable) as failed:
            await payloads(engine)

    assert url in str(failed.value)


async def test_a_question_that_is_never_answered_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is heard of a call that is not streamed before its end, so there is an end to waiting for it."""
    monkeypatch.setattr("gateway.edge.engine._ANSWER_S", 0.05)
    sim = create_sim(first_token_delay_s=3600)
    async with serving(sim) as server, opened(str(server.make_url(""))) as engine:
        with pytest.raises(EngineUnavailable, match="dropped the call"):
            await engine.ask(orjson.dumps({**orjson.loads(BODY), "stream": False}), request_id="r")
        await until(lambda: sim[JOURNAL].running == 0)


async def test_what_an_engine_said_of_its_logprobs_is_forgotten_when_it_was_away() -> None:
    """It may be another one; and until then, nothing that is known is lost to a probe that finds out less."""
    async with serving(create_sim()) as server, opened(str(server.make_url(""))) as engine:
        findings = [
            LogprobsFinding("unknown", "busy", answered=False),
            LogprobsFinding("unknown", "all alike"),
            LogprobsFinding("unknown", "busy", answered=False),
            LogprobsFinding("raw"),
            LogprobsFinding("unknown", "all alike"),
            LogprobsFinding("processed"),
        ]
        assert [engine.learn(finding) for finding in findings] == [True, True, False, True, False, True]
        assert engine.logprobs.mode == "processed"
        await engine.refresh()
        assert not engine.logprobs.answered


@pytest.mark.parametrize(
    ("session_id", "header"),
    [
        ("run/7", "run/7"),
        ("a b%", "a b%"),
        ("Zürich", "Z%C3%BCrich"),
        (" padded", "%20padded"),
        ("line\nbreak", "line%0Abreak"),
        (None, None),
    ],
)
async def test_an_engine_is_told_whose_call_it_is(session_id: str | None, header: str | None) -> None:
    """For routers in between; what a header cannot hold is percent-encoded."""
    sim = create_sim()
    async with serving(sim) as server, opened(str(server.make_url(""))) as engine:
        told = engine.generate(BODY, request_id="r", session_id=session_id)
        assert [event async for event in told][-1] == b"[DONE]"
    assert sim[JOURNAL].entries[0].headers.get("x-session-id") == header


async def test_an_engine_that_was_closed_takes_no_calls() -> None:
    """They would open what nobody closes."""
    engine = Engine("http://127.0.0.1:1")
    await engine.close()
    with pytest.raises(EngineUnavailable, match="none of this gateway"):
        await payloads(engine)
