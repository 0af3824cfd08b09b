"""Cancelled anywhere, the handler of a streamed call leaves nothing behind: no task, no lease, no socket, no untruth."""

import asyncio
import gc
from itertools import count
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from gateway.edge.calls import Calls
from gateway.render.registry import Renderers
from gateway.wire.dialect import Dialect
from tests.edge.house import HELLO, IM_END, House, Json, OpenHouse, Words, until
from tests.edge.streams import Streamed, reading
from tests.edge.suspensions import Suspensions
from tests.edge.talkative import Talkative


async def told(house: House, session: str, script: list[int]) -> Streamed | None:
    """What a client reads of a stream, which may be cut off; nothing, if even its head is."""
    streamed = None
    try:
        async with reading(house, session, HELLO, script) as (streamed, chunks):
            async for _ in chunks:
                pass
    except aiohttp.ClientError:
        pass
    return streamed


def at_work() -> "set[asyncio.Task[Any]]":
    """The tasks that are no connection's, which wait for more on those that are kept."""
    return {task for task in asyncio.all_tasks() if "RequestHandler" not in repr(task.get_coro())}


@pytest.mark.parametrize("how", ["early", "late", "blocked"])
async def test_cancelled_at_each_of_its_awaits(
    open_house: OpenHouse, renderers: Renderers, words: Words, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """Before its head, while it is held open, while it is sent and while it ends: what is noted is what happened."""
    asyncio.get_running_loop().set_debug(True)
    ways: dict[str, Json] = {
        "early": {},
        "late": {"keep_alive_s": 0.01, "sim": {"first_token_delay_s": 0.03, "token_delay_s": 0.001}},
        "blocked": {
            "renderer": Talkative(renderers.get({}).renderer),
            "narrow": True,
            "stream_interval_tokens": 8,
            "sim": {},
        },
    }
    script = [*[1000] * 150, IM_END] if how == "blocked" else words.said("Hi you.")
    house = await open_house(**{"stream_interval_tokens": 1, "sim": {"token_delay_s": 0.001}} | ways[how])
    take, suspensions = Calls.take, Suspensions(0)

    async def stepped(calls: Calls, request: web.Request, dialect: Dialect) -> web.StreamResponse:
        answer: web.StreamResponse = await suspensions.run(take(calls, request, dialect))
        return answer

    monkeypatch.setattr(Calls, "take", stepped)
    before, seen = at_work(), set()
    for at in count():
        suspensions = Suspensions(at)
        streamed = await told(house, f"s{at}", script)
        await house.idle()
        await until(lambda: at_work() <= before)
        assert await house.metric("gateway_streams") == 0
        turns = [(turn["status"], turn["delivered"]) for turn in await house.turns(f"s{at}")]
        seen.update(turns)
        if not suspensions.reached:  # it ended before it waited so often
            assert turns == [("complete", True)]
            break
        assert len(turns) <= 1
        assert ("complete", True) not in turns or (streamed is not None and streamed.done)

    assert at > 10
    gc.collect()  # a socket that was left open complains
    assert {status for status, _ in seen} == {"aborted", "complete"}
