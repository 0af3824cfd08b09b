"""Rows are made beside the turns, for a reader that takes them."""

import asyncio
import socket
from collections.abc import Callable
from threading import Event

import pytest
from structlog.testing import capture_logs

from gateway.core.rows import Row
from gateway.core.types import JsonObject
from gateway.wire.rows import row_object
from gateway.wire.rows_query import ArrayForm, SideArrayForm
from tests.edge.house import NARROW_BYTES, House, OpenHouse, Words, until
from tests.edge.pulling import COLUMNS, LINES, accepted, answered


async def test_a_reader_that_takes_nothing_of_its_rows_counts_as_gone(open_house: OpenHouse, words: Words) -> None:
    """So that what it reads is not held for it for ever."""
    house = await open_house(stream_stall_s=0.4, narrow=True)
    for session in "abc":
        await house.ask(session, script=words.said("Hi. " * 500), n=4)
    url = house.http.make_url("/trajectories?status=all")
    lines = [f"GET {url.path_qs} HTTP/1.1", f"Host: {url.authority}", f"Accept: {LINES}", "", ""]
    with socket.socket() as client, capture_logs() as logged:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, NARROW_BYTES)
        client.setblocking(False)
        await asyncio.get_running_loop().sock_connect(client, (url.host, url.port))
        await asyncio.get_running_loop().sock_sendall(client, "\r\n".join(lines).encode())
        await until(lambda: any("took nothing" in line["event"] for line in logged), within_s=4)
    assert (await accepted(house, LINES, "?status=all")).count(b"\n") == 12


async def test_a_turn_does_not_wait_behind_rows(house: House, words: Words, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many of them are asked for."""
    go = Event()
    await answered(house, words, "s")
    monkeypatch.setattr("gateway.edge.trajectories.told_turn", lambda _turn, _fate: {"went": go.wait()})
    readers = [asyncio.ensure_future(house.send("GET", "/sessions/s/turns")) for _ in range(40)]
    try:
        await asyncio.sleep(0.1)
        asked = house.ask("t", script=words.said("Hi."), logprobs=True, top_logprobs=2)  # written in a thread, too
        assert (await asyncio.wait_for(asked, 2)).status == 200
    finally:
        go.set()
    assert {(await reader).status for reader in readers} == {200}


def _ill(row: JsonObject) -> JsonObject:
    return {**row, "metadata": object()}


def _failing(row: JsonObject) -> JsonObject:
    raise ValueError(row)


@pytest.mark.parametrize("media", [LINES, COLUMNS, "application/json"])
@pytest.mark.parametrize(("spoilt", "names"), [(_ill, {"row_id", "row_index"}), (_failing, {"row_index"})])
async def test_a_row_that_cannot_be_written_is_named_and_no_client_takes_what_came_for_all(
    house: House,
    words: Words,
    monkeypatch: pytest.MonkeyPatch,
    media: str,
    spoilt: Callable[[JsonObject], JsonObject],
    names: set[str],
) -> None:
    """Not even one of HTTP/1.0, which reads until the connection ends: it is reset."""
    await house.send("POST", "/sessions", session_id="a", metadata={"long": "x" * 65_000})
    await answered(house, words, "a", "b")

    def written(row: Row, arrays: ArrayForm, experts: SideArrayForm) -> JsonObject:
        told = row_object(row, arrays, experts)
        return spoilt(told) if told["session_id"] == "b" else told

    monkeypatch.setattr("gateway.edge.standing.row_object", written)
    with capture_logs() as logged:
        received, reset = await _read_to_its_end(house, "/trajectories", media)
    (line,) = [line for line in logged if line["event"] == "an export failed halfway"]

    assert reset
    assert media != LINES or b'"session_id":"a"' in received
    assert line["session_id"] == "b"
    assert line["row_index"] == 0
    assert names == line.keys() & {"row_id", "row_index"}
    assert "Hello?" not in str(line)


async def _read_to_its_end(house: House, path: str, media: str) -> tuple[bytes, bool]:
    """What a client of HTTP/1.0 reads, and whether the connection was reset."""
    url = house.http.make_url(path)
    reader, writer = await asyncio.open_connection(url.host, url.port)
    writer.write(f"GET {url.path_qs} HTTP/1.0\r\nHost: {url.authority}\r\nAccept: {media}\r\n\r\n".encode())
    received = b""
    try:
        while piece := await reader.read(65_536):
            received += piece
    except ConnectionResetError:
        return received, True
    finally:
        writer.close()
    return received, False
