"""Agents and a trainer before a balancer: what they ask, and how they read it."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from typing import Any

import aiohttp
import orjson
from yarl import URL

from gateway.wire.sse import SSEDecoder
from tests.deploy.fleet import LIMIT_S, Engine, Gateway, Json, script

HELLO = [{"role": "user", "content": "Hello?"}]
TEXT = "one two three four five six seven eight nine ten"


class Client:
    """An agent or a trainer; its paths are sent as they stand."""

    def __init__(self, http: aiohttp.ClientSession, base: str) -> None:
        self._http = http
        self._base = base

    def post(self, path: str, body: Json, **headers: str) -> Any:
        """A request with a body, to be entered as a context; underscores in the names of headers are dashes."""
        return self._http.post(URL(self._base + path, encoded=True), json=body, headers=_named(headers))

    async def status(self, path: str, body: Json | None = None, **headers: str) -> int:
        """What a GET is answered with, or with a body a POST."""
        if body is not None:
            async with self.post(path, body, **headers) as answer:
                await answer.read()
                status: int = answer.status
                return status
        async with self._http.get(URL(self._base + path, encoded=True), headers=_named(headers)) as answer:
            await answer.read()
            return answer.status

    async def sessions(self, gateway: Gateway) -> set[str]:
        """The names of all sessions that a gateway knows, by its own word."""
        names, query = set(), "limit=500"
        while query:
            async with self._http.get(URL(f"{gateway.url}/sessions?{query}", encoded=True)) as answer:
                page = await answer.json()
            names |= {session["session_id"] for session in page["data"]}
            query = f"limit=500&cursor={page['next']}" if page["next"] else ""
        return names


def _named(headers: Json) -> Json:
    return {name.replace("_", "-"): value for name, value in headers.items()}


def body(text: str = TEXT, **fields: Any) -> Json:
    """A turn whose answer is settled."""
    ids = script(text)
    return {"messages": HELLO, "vllm_xargs": {"script": ids}, "return_token_ids": True, **fields}


def chat(session_id: str) -> str:
    """Where a session's turns are asked for."""
    return f"/sessions/{session_id}/v1/chat/completions"


async def each(names: Iterable[str], ask: Callable[[str], Any]) -> list[Any]:
    """Ask for each of many, 32 at a time; the answers in the order of the names."""
    turn = asyncio.Semaphore(32)

    async def one(name: str) -> Any:
        async with turn:
            return await ask(name)

    return await asyncio.gather(*map(one, names))


async def made(client: Client, names: Iterable[str]) -> set[int]:
    """Make sessions through the balancer, which reads their names in the header; the statuses of the answers."""
    return set(
        await each(
            names, lambda name: client.status("/sessions", {"session_id": name, "group_id": "fleet"}, X_Session_ID=name)
        )
    )


async def read(answer: aiohttp.ClientResponse) -> AsyncIterator[Json | None]:
    """The events of a stream as they come; ``None`` for its end."""
    decoder = SSEDecoder()
    async for data in answer.content.iter_any():
        for payload in decoder.feed(data):
            yield None if payload == b"[DONE]" else orjson.loads(payload)


async def next_ids(events: AsyncIterator[Json | None]) -> list[int]:
    """The ids that the next event with ids brings."""
    async for event in events:
        assert event is not None, "the stream ended"
        assert "error" not in event, event
        for choice in event["choices"]:
            if choice.get("token_ids"):
                ids: list[int] = choice["token_ids"]
                return ids
    raise AssertionError("the stream broke off")


async def first_ids(client: Client, name: str, *, stream: bool) -> None:
    """Ask for a turn, and leave after its first ids or, where it is not streamed, never."""
    async with client.post(chat(name), body(stream=stream)) as answer:
        if stream:
            await next_ids(read(answer))
            answer.close()
        else:
            await answer.read()


def going_on() -> Json:
    """A turn with a history."""
    history = [*HELLO, {"role": "assistant", "content": TEXT}, {"role": "user", "content": "And then?"}]
    return body() | {"messages": history}


async def outcome(client: Client, name: str, *, stream: bool) -> int | None:
    """What a call is answered with; ``None`` for a connection that ends without an answer."""
    try:
        return await client.status(chat(name), body(stream=stream))
    except aiohttp.ServerDisconnectedError:
        return None


_PAUSE_S = 0.18
"""Less than the 0.2 s for which Linux keeps a packet back that is to be filled."""


async def share_in_time(client: Client, engine: Engine, name: str) -> float:
    """Of ids that are sampled one by one, a pause apart, the share that is read before the next one is sampled."""
    engine.turnstile.shut()
    count, sampled, in_time = len(script(TEXT)), 0, 0

    async def sample() -> None:
        nonlocal sampled
        while sampled < count:
            sampled += 1
            engine.turnstile.permit()
            await asyncio.sleep(_PAUSE_S)

    sampling = asyncio.ensure_future(sample())
    async with asyncio.timeout(LIMIT_S), client.post(chat(name), body(stream=True)) as answer:
        events, ids = read(answer), list[int]()
        while len(ids) < count:
            ids += await next_ids(events)
            in_time += len(ids) == sampled
    await sampling
    return in_time / count
