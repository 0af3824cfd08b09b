"""Engines that are killed as a process is: whoever is connected notices."""

import asyncio
import socket
from contextlib import suppress

import pytest

from gateway.render.demo import FOLDER, MODEL_NAME
from tests.chaos.fleet import fleet


@pytest.mark.parametrize("rounds", range(6))
async def test_no_connection_outlives_the_engine_that_it_was_made_to(rounds: int) -> None:
    """However far its server was with accepting it."""
    async with fleet(1, model=MODEL_NAME, tokenizer=FOLDER) as (machine,):
        with socket.create_connection(("127.0.0.1", machine.port)) as client:
            for _ in range(rounds):
                await asyncio.sleep(0)

            await asyncio.wait_for(machine.kill(), 2)

            client.setblocking(False)
            with suppress(ConnectionError):
                assert await asyncio.wait_for(asyncio.get_running_loop().sock_recv(client, 1), 2) == b""


async def test_an_engine_that_is_started_again_is_where_it_was() -> None:
    """On the same port, at once."""
    async with fleet(1, model=MODEL_NAME, tokenizer=FOLDER) as (machine,):
        url = machine.url
        await machine.kill()
        assert not machine.lives

        await machine.start()

        assert machine.url == url
        _, writer = await asyncio.open_connection("127.0.0.1", machine.port)
        writer.transport.abort()
