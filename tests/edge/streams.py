"""Streamed chat answers, as a client reads and joins them."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import orjson

from gateway.wire.sse import SSEDecoder
from tests.edge.house import HELLO, House, Json


@dataclass
class Streamed:
    """One streamed answer, as far as it was read."""

    status: int
    headers: Any
    chunks: list[Json] = field(default_factory=list)
    comments: int = 0
    done: bool = False
    error: Json | None = None

    def choice(self, index: int = 0) -> Json:
        """What the chunks of a choice join to, in the shape of an answer that is not streamed."""
        message: Json = {"role": "assistant", "content": ""}
        joined: Json = {"index": index, "message": message, "finish_reason": None, "logprobs": None}
        for chunk in self.chunks:
            for choice in chunk["choices"]:
                if choice["index"] == index:
                    _join(joined, choice)
        if message.get("tool_calls"):
            message["content"] = message["content"] or None
        return joined

    @property
    def message(self) -> Json:
        """The joined message of the first choice."""
        message: Json = self.choice()["message"]
        return message


def _join(joined: Json, choice: Json) -> None:
    message, delta = joined["message"], choice["delta"]
    for name in ("reasoning_content", "reasoning", "content"):
        if delta.get(name):
            message[name] = message.get(name, "") + delta[name]
    for call in delta.get("tool_calls", ()):
        calls = message.setdefault("tool_calls", [])
        if call["index"] == len(calls):
            assert call["id"]
            assert call["type"] == "function"
            calls.append({"id": call["id"], "type": "function", "function": dict(call["function"])})
        else:
            calls[call["index"]]["function"]["arguments"] += call["function"]["arguments"]
    if choice["logprobs"]:
        joined["logprobs"] = joined["logprobs"] or {"content": []}
        joined["logprobs"]["content"] += choice["logprobs"]["content"]
    if "token_ids" in choice:
        joined["token_ids"] = [*joined.get("token_ids", ()), *choice["token_ids"]]
    assert joined["finish_reason"] is None
    joined["finish_reason"] = choice["finish_reason"]


@asynccontextmanager
async def reading(
    house: House,
    session: str | None,
    messages: Sequence[Json] = HELLO,
    script: Sequence[int] | None = None,
    **fields: Any,
) -> AsyncIterator[tuple[Streamed, AsyncIterator[Json]]]:
    """A client that asks for a stream and reads it chunk by chunk; it hangs up at the end of the block."""
    headers = fields.pop("headers", None)
    scripted = {} if script is None else {"vllm_xargs": {"script": list(script)}}
    body = {"messages": list(messages), "stream": True, **scripted, **fields}
    path = "/v1/chat/completions" if session is None else f"/sessions/{session}/v1/chat/completions"
    async with house.http.session.post(house.http.make_url(path), data=orjson.dumps(body), headers=headers) as response:
        streamed = Streamed(response.status, response.headers)
        yield streamed, read_chunks(response, streamed)


async def read_chunks(response: aiohttp.ClientResponse, streamed: Streamed) -> AsyncIterator[Json]:
    """What is sent, chunk by chunk, kept in `streamed`; an answer that is no stream is an error."""
    if response.content_type != "text/event-stream":
        streamed.error = orjson.loads(await response.read())["error"]
        return
    decoder = SSEDecoder()
    async for data in response.content.iter_any():
        streamed.comments += data.count(b": keep-alive\n\n")
        for payload in decoder.feed(data):
            assert not streamed.done
            if payload == b"[DONE]":
                streamed.done = True
                continue
            event = orjson.loads(payload)
            if "error" in event:
                streamed.error = event["error"]
                continue
            streamed.chunks.append(event)
            yield event


async def stream(house: House, session: str | None, *args: Any, **fields: Any) -> Streamed:
    """Ask for a stream, and read all of it."""
    async with reading(house, session, *args, **fields) as (streamed, chunks):
        async for _ in chunks:
            pass
    return streamed
