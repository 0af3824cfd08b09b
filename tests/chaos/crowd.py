"""The agents of the trial: what they do, and what they see of what happens."""

import time
from random import Random
from typing import Any, cast

import httpx
from openai import AsyncOpenAI, OpenAIError

from gateway.demo.agent import TOOLS
from gateway.render.demo import MODEL_NAME
from tests.chaos.figures import Figures, Plan
from tests.edge.house import Json

PATIENCE_S = 75.0
"""Of the agents with an answer, and ours with the agents in the end: longer than stalls go unnoticed when there were
too many of them at once."""
_TOPICS = ["letters", "lighthouses", "migrating geese", "old bridges", "sourdough", "tides", "comets"]


class Crowd:
    """The agents: OpenAI's own client, which tries nothing a second time."""

    def __init__(self, url: str, plan: Plan, figures: Figures) -> None:
        self._url, self._plan, self._figures = url, plan, figures
        self._sdk = AsyncOpenAI(base_url=url, api_key="none", max_retries=0, timeout=PATIENCE_S)
        self.is_over = False

    async def agent(self, number: int) -> None:
        """One session after the other, every second of them streamed, until all is over."""
        random, done = Random(f"{self._plan.seed} {number}"), 0
        while not self.is_over:
            await self._session(f"s{number}-{done}", random, streams=(number + done) % 2 == 0)
            done += 1

    async def close(self) -> None:
        """Close the client's connections."""
        await self._sdk.close()

    async def _session(self, session: str, random: Random, *, streams: bool) -> None:
        sdk = self._sdk.with_options(base_url=f"{self._url}/sessions/{session}/v1")
        messages: list[Json] = [{"role": "system", "content": f"You are agent {session}. Use the tools."}]
        tools = TOOLS if random.random() < 0.5 else None
        for turn in range(self._plan.turns):
            calls = messages[-1].get("tool_calls") or ()
            results = [{"role": "tool", "tool_call_id": call["id"], "content": f"{turn} entries"} for call in calls]
            topic = f"Tell me about {random.choice(_TOPICS)} and {random.choice(_TOPICS)}."
            messages += results or [{"role": "user", "content": topic}]
            began_s = time.monotonic()
            try:
                ask = _streamed if streams else _whole
                message = await ask(sdk, messages, {"tools": tools} if tools else {})
            except (OpenAIError, httpx.HTTPError, AssertionError) as error:
                self._figures.seen.append(f"{session} turn {turn} streams={streams}: {error!r:.600}")
                return
            self._figures.answers += 1
            self._figures.slowest_s = max(self._figures.slowest_s, time.monotonic() - began_s)
            messages.append(message)


async def _whole(sdk: AsyncOpenAI, messages: list[Json], fields: Json) -> Json:
    answer = await sdk.chat.completions.create(model=MODEL_NAME, messages=cast("Any", messages), **fields)
    choice = answer.choices[0]
    assert choice.finish_reason in ("stop", "tool_calls"), choice
    return choice.message.model_dump(exclude_none=True)


async def _streamed(sdk: AsyncOpenAI, messages: list[Json], fields: Json) -> Json:
    async with sdk.chat.completions.stream(model=MODEL_NAME, messages=cast("Any", messages), **fields) as stream:
        async for _ in stream:
            pass
        choice = (await stream.get_final_completion()).choices[0]
    assert choice.finish_reason in ("stop", "tool_calls"), choice
    message = choice.message.model_dump(exclude_none=True, exclude={"parsed": True})
    for call in message.get("tool_calls") or ():
        call["function"].pop("parsed_arguments", None)
        call.pop("index", None)
    return message
