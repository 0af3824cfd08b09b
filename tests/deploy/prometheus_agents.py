"""Agents before a gateway that is scraped: some whose history stays as it is, and some of every bad manner."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from typing import Any

import aiohttp
from openai import AsyncOpenAI, OpenAIError

from gateway.demo.agent import TOOLS
from gateway.render.demo import MODEL_NAME

Json = dict[str, Any]
_TURNS = 4
_REST_S = 0.05
"""Between turns: two cores run all of this."""


class Agents:
    """Tasks that ask the gateway for turns until they are ended."""

    def __init__(self, url: str, key: str, http: aiohttp.ClientSession) -> None:
        self._url, self._http, self._numbers = url, http, count()
        self._headers = {"Authorization": f"Bearer {key}"}
        self._sdk = AsyncOpenAI(base_url=url, api_key=key, max_retries=0, timeout=60)
        self._tasks: list[asyncio.Task[None]] = []
        self.answers = 0
        self.failures: list[str] = []

    def start(self, manner: Callable[["Agents", str], Any], agents: int = 1) -> None:
        """So many agents of a manner, each of which begins one session after the other."""
        self._tasks += [asyncio.ensure_future(self._repeat(manner)) for _ in range(agents)]

    async def _repeat(self, manner: Callable[["Agents", str], Any]) -> None:
        while True:
            try:
                await manner(self, f"{manner.__name__}-{next(self._numbers)}")
            except (OpenAIError, aiohttp.ClientError, AssertionError, ExceptionGroup) as error:
                self.failures.append(f"{manner.__name__}: {error!r}")
            await asyncio.sleep(_REST_S)

    async def end(self) -> None:
        """End all of them."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._sdk.close()

    async def ask(self, session: str, messages: list[Json], *, streams: bool = False, **fields: Any) -> Json:
        """The message of one turn."""
        sdk: Any = self._sdk.with_options(base_url=f"{self._url}/sessions/{session}/v1").chat.completions
        given = {"model": MODEL_NAME, "messages": messages, "tools": TOOLS, **fields}
        if streams:
            async with sdk.stream(**given) as stream:
                async for _ in stream:
                    pass
                answer = await stream.get_final_completion()
        else:
            answer = await sdk.create(**given)
        self.answers += 1
        message: Json = answer.choices[0].message.model_dump(exclude_none=True, exclude={"parsed"})
        for call in message.get("tool_calls") or ():
            call["function"].pop("parsed_arguments", None)
            call.pop("index", None)
        return message

    async def post(self, path: str, body: Json, **headers: str) -> tuple[int, bytes]:
        """The status and body of one request."""
        url = f"{self._url}{path}"
        async with self._http.post(url, json=body, headers={**self._headers, **headers}) as response:
            return response.status, await response.read()

    async def leave(self, path: str, body: Json, after_bytes: int) -> None:
        """Begin to read an answer, and hang up."""
        async with self._http.post(f"{self._url}{path}", json=body, headers=self._headers) as response:
            with suppress(aiohttp.ServerDisconnectedError):
                await response.content.readexactly(after_bytes)


def asked(history: list[Json], turn: int) -> list[Json]:
    """What an agent says next: what its tools found, or another question."""
    results = [
        {"role": "tool", "tool_call_id": call["id"], "content": f"{turn} entries"}
        for call in (history[-1].get("tool_calls") or () if history else ())
    ]
    return results or [{"role": "user", "content": f"Tell me about the tides and lighthouses, part {turn}."}]


async def faithful(agents: Agents, session: str) -> None:
    """Sends its history back as it got it; every second turn is streamed."""
    history: list[Json] = []
    for turn in range(_TURNS):
        history += asked(history, turn)
        history.append(await agents.ask(session, history, streams=turn % 2 == 1))


async def thoughtless(agents: Agents, session: str) -> None:
    """Drops the reasoning of every answer, as most clients do."""
    history: list[Json] = []
    for turn in range(_TURNS):
        history += asked(history, turn)
        message = await agents.ask(session, history)
        history.append({name: value for name, value in message.items() if not name.startswith("reasoning")})


async def rewriting(agents: Agents, session: str) -> None:
    """Words what it said at first anew each turn."""
    history: list[Json] = []
    for turn in range(_TURNS):
        history += asked(history, turn)
        history[0] = {**history[0], "content": f"In short, as of turn {turn}: tides."}
        history.append(await agents.ask(session, history))


async def cold(agents: Agents, session: str) -> None:
    """Samples at a temperature at which raw logprobs are others than those that were sampled from."""
    await agents.ask(session, asked([], 0), temperature=0.5)


async def impatient(agents: Agents, session: str) -> None:
    """Hangs up amid a stream."""
    body = {"model": MODEL_NAME, "messages": asked([], 0), "stream": True, "min_tokens": 40}
    await agents.leave(f"/sessions/{session}/v1/chat/completions", body, 600)


async def repeating(agents: Agents, session: str) -> None:
    """Asks twice at once, and once more when it was answered, with the key that says that it is one call."""
    body = {"model": MODEL_NAME, "messages": asked([], 0)}
    path, key = f"/sessions/{session}/v1/chat/completions", {"Idempotency-Key": session}
    async with asyncio.TaskGroup() as group:
        first = group.create_task(agents.post(path, body, **key))
        await asyncio.sleep(_REST_S)
        joining = group.create_task(agents.post(path, body, **key))
    answers = [first.result(), joining.result(), await agents.post(path, body, **key)]
    assert {status for status, _ in answers} == {200}, answers


async def mistaken(agents: Agents, session: str) -> None:
    """Sends what is no list of messages."""
    status, _ = await agents.post(f"/sessions/{session}/v1/chat/completions", {"model": MODEL_NAME, "messages": 1})
    assert status == 400
