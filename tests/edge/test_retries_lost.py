"""Answers that were recorded and did not arrive: the retry gets the one that was lost."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress

import aiohttp
import pytest
from aiohttp import web
from openai import AsyncOpenAI

from gateway.app import create_app
from gateway.settings import Settings
from gateway.sim import create_sim
from tests.edge.house import HELLO, MODEL_NAME, House, OpenHouse, Words, serving, until, waiting
from tests.edge.keeping import KeepingStore
from tests.edge.marks import is_replayed, keyed, retry, turn_id


class LosingProxy:
    """A way to a gateway on which the first answers are lost after they were sent."""

    def __init__(self, house: House, losses: int) -> None:
        self._house = house
        self.losses = losses
        self.url = ""

    @asynccontextmanager
    async def open(self) -> AsyncIterator["LosingProxy"]:
        """Listen."""
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self._pass_on)
        runner = web.AppRunner(app)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        self.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        try:
            yield self
        finally:
            await runner.cleanup()

    async def _pass_on(self, request: web.Request) -> web.Response:
        kept = ("content-type", "x-stainless-retry-count", "idempotency-key", "authorization")
        headers = {name: value for name, value in request.headers.items() if name.lower() in kept}
        answer = await self._house.http.request(
            request.method, request.path_qs, data=await request.read(), headers=headers
        )
        body = await answer.read()
        if self.losses and request.transport is not None:
            self.losses -= 1
            request.transport.abort()
        passed = {name: value for name, value in answer.headers.items() if name.lower().startswith("x-")}
        return web.Response(body=body, status=answer.status, content_type=answer.content_type, headers=passed)


@pytest.mark.parametrize("base", ["/v1", "/sessions/s/v1"])
@pytest.mark.parametrize("losses", [1, 2])
async def test_an_answer_lost_on_the_way_is_sampled_once(house: House, base: str, losses: int) -> None:
    """The retries of a real SDK get the turn that was recorded, in the session that was minted for it."""
    async with (
        LosingProxy(house, losses).open() as proxy,
        AsyncOpenAI(base_url=proxy.url + base, api_key="k", max_retries=2) as client,
    ):
        raw = await client.chat.completions.with_raw_response.create(
            model="sim", messages=[{"role": "user", "content": "Hello?"}]
        )

    assert proxy.losses == 0
    assert len(house.journal) == 1
    (turn,) = await house.turns(raw.headers["x-session-id"])
    assert (raw.headers["x-turn-id"], raw.headers["x-gateway-replayed"]) == (turn["turn_id"], "true")
    assert turn["turn_id"] in raw.parse().id


async def test_who_left_before_the_end_does_not_speak_for_who_joined(open_house: OpenHouse, words: Words) -> None:
    """The turn has reached its client."""
    house = await open_house(disconnect_grace_s=10, sim={"token_delay_s": 0.01})
    script = words.said("A long answer. " * 4)
    older = await house.ask("s", HELLO, script)
    async with waiting(house, "s", HELLO, script):
        await until(lambda: len(house.journal) == 2)
    joined = await house.ask("s", HELLO, script, headers=retry(1))
    assert turn_id(joined) != turn_id(older)

    assert await told(house) == {turn_id(older): True, turn_id(joined): True}


@asynccontextmanager
async def one_of_two_lost(
    house: House, store: KeepingStore, headers: Sequence[Mapping[str, str]] = ({}, {})
) -> AsyncIterator[tuple[str, str]]:
    """Two equal calls, the first delivered, the second not: its client left while it was recorded. Their turns."""
    store.hold()
    async with waiting(house, "s", headers=headers[0]) as stays:
        await until(lambda: store.waiting == 1)
        async with waiting(house, "s", headers=headers[1]):
            await until(lambda: store.waiting == 2)
        await asyncio.sleep(0.05)  # for the gateway to see that it left
        store.release()
        delivered = turn_id(await stays)
    await until(lambda: len(store.turns) == 2)
    (lost,) = {turn.id for turn in store.turns} - {delivered}
    yield delivered, lost


async def told(house: House) -> dict[str, bool | None]:
    """What is said of each turn's delivery."""
    return {turn["turn_id"]: turn["delivered"] for turn in await house.turns("s")}


async def test_of_two_equal_turns_the_retry_gets_the_one_that_is_known_to_be_lost(open_house: OpenHouse) -> None:
    """Not the older one, which the first retry of another client gets; who lost both tries gets his own again."""
    store = KeepingStore()
    house = await open_house(store=store)
    async with one_of_two_lost(house, store) as (delivered, lost):
        assert await told(house) == {delivered: True, lost: False}
        assert turn_id(await house.ask("s", headers=retry(1))) == lost
        assert await told(house) == {delivered: True, lost: True}
        assert turn_id(await house.ask("s", headers=retry(2))) == lost
        assert turn_id(await house.ask("s", headers=retry(1))) == delivered
    assert len(house.journal) == 2


async def test_with_keys_of_their_own_equal_turns_never_swap(open_house: OpenHouse) -> None:
    """Whichever of them is known to be lost, and however often they are asked for, with a count or without."""
    store = KeepingStore()
    house = await open_house(store=store)
    async with one_of_two_lost(house, store, (keyed("a"), keyed("b"))) as (delivered, lost):
        for count in (0, 1, 1, 2):
            replays = [await house.ask("s", headers={**keyed(key), **retry(count)}) for key in "bab"]
            assert [turn_id(replay) for replay in replays] == [lost, delivered, lost]
            assert all(map(is_replayed, replays))
    assert len(house.journal) == 2


async def test_an_answer_that_could_not_be_written_is_known_to_be_lost(tokenizer_folder: str) -> None:
    """Where the server does not end the handler of a client that left, the closed socket says so."""
    async with serving(create_sim(token_delay_s=0.02)) as sim, aiohttp.ClientSession() as http:
        settings = Settings(model=tokenizer_folder, model_name=MODEL_NAME, engine=(str(sim.make_url("")),))
        runner = web.AppRunner(create_app(settings), handler_cancellation=False)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        session = f"http://127.0.0.1:{runner.addresses[0][1]}/sessions/s"

        async def ask(headers: Mapping[str, str]) -> str:
            async with http.post(f"{session}/v1/chat/completions", json={"messages": HELLO}, headers=headers) as answer:
                return answer.headers["x-turn-id"]

        async def are_recorded() -> list[str]:
            async with http.get(f"{session}/turns") as answer:
                ids = [turn["turn_id"] for turn in (await answer.json())["data"]]
                return ids if len(ids) == 2 else []

        await ask({})
        with suppress(TimeoutError):
            await asyncio.wait_for(ask({}), 0.03)
        await until(are_recorded)

        assert await ask(retry()) == (await are_recorded())[1]
        await runner.cleanup()
