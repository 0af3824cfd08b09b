"""Rows are made beside the turns, for a reader that takes them."""

import asyncio
import socket
from threading import Event

import pytest
from structlog.testing import capture_logs

from tests.edge.house import NARROW_BYTES, House, OpenHouse, Words, until
from tests.edge.pulling import LINES, accepted, answered


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
