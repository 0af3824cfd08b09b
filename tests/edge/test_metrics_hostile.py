"""Whatever agents and engines say, no label of a metric says it."""

from collections.abc import AsyncIterator
from contextlib import suppress
from urllib.parse import quote

import aiohttp
import orjson
import pytest
from aiohttp import web
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from gateway.edge.metric_table import TABLE
from tests.edge.house import HELLO, House, OpenHouse, Words, serving
from tests.edge.wild import GENERATE, Hook, answers, url_of, wild

Series = set[tuple[str, tuple[tuple[str, str], ...]]]
INJECTED = 'x"} 1\ngateway_evil_total{a="b'
texts = st.one_of(
    st.text(max_size=30), st.sampled_from([INJECTED, "http://u:p@h:1/", "../..", "chat", "\\", "rank", "%2F"])
)
doings = st.sampled_from(["answers", "refuses", "breaks", "ends"])


async def series(house: House) -> Series:
    """Every series that there is."""
    text = (await house.call("GET", "/metrics")).body
    every = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
    return {(sample.name, tuple(sample.labels.items())) for sample in every}


class Hostile:
    """A gateway, and an engine that says what it is told to."""

    def __init__(self, house: House, hooks: dict[str, Hook], engine: str, begun: Series) -> None:
        self.house, self.hooks, self.engine, self.begun = house, hooks, engine, begun

    def have_engine(self, doing: str, said: str) -> None:
        """Have it answer, refuse or break with some text, or end for a reason that nobody knows."""
        text = orjson.dumps({"error": {"message": said, "type": said, "code": said}}).decode()
        event = {"choices": [{"index": 0, "token_ids": [1], "finish_reason": said}]}
        hooks: dict[str, Hook] = {
            "refuses": answers(400, text),
            "breaks": answers(500, text),
            "ends": _says(b"data: " + orjson.dumps(event) + b"\n\ndata: [DONE]\n\n"),
        }
        self.hooks.pop(GENERATE, None)
        if doing in hooks:
            self.hooks[GENERATE] = hooks[doing]


def _says(events: bytes) -> Hook:
    async def other(_request: web.Request) -> web.StreamResponse:
        return web.Response(body=events, content_type="text/event-stream")

    return other


@pytest.fixture
async def hostile(open_house: OpenHouse, words: Words) -> AsyncIterator[Hostile]:
    """With a tag header and anonymous sessions, after a turn that went well."""
    app, hooks = wild()
    async with serving(app) as server:
        house = await open_house(engine=(url_of(server),), tag_header=("x-agent",))
        begun = await series(house)
        assert (await house.ask("s", HELLO, words.said("Hi."))).status == 200
        yield Hostile(house, hooks, f"127.0.0.1:{server.port}", begun)


@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@example(session=INJECTED, model=INJECTED, tool=INJECTED, said=INJECTED, doing="refuses")
@example(session="", model=INJECTED, tool="f", said=INJECTED, doing="ends")
@given(session=texts, model=texts, tool=texts, said=texts, doing=doings)
async def test_no_label_says_what_somebody_said(
    hostile: Hostile, words: Words, session: str, model: str, tool: str, said: str, doing: str
) -> None:
    """Session ids, models, tools, tags, request ids, errors of engines: each series was there from the start, and each
    label value is one of the table's, but for the engine and its rank.
    """
    house = hostile.house
    hostile.have_engine(doing, said)
    call = {"id": said, "type": "function", "function": {"name": tool, "arguments": said}}
    replayed = [*HELLO, {"role": "assistant", "content": said, "tool_calls": [call]}]
    answered = [*replayed, {"role": "tool", "tool_call_id": said, "content": said}]
    tools = [{"type": "function", "function": {"name": tool, "parameters": {}}}]
    tagged = {"x-agent": quote(said), "X-Request-Id": quote(said), "Idempotency-Key": quote(session)[:99]}
    kwargs = {tool: said}
    for fields in ({"model": model}, {"tools": tools, "stream": True}, {"chat_template_kwargs": kwargs}, {tool: said}):
        path = f"/sessions/{quote(session, safe='')}/v1/chat/completions" if session else "/v1/chat/completions"
        body = {"messages": answered, "vllm_xargs": {"script": words.said("Hi.")}, **fields}
        with suppress(aiohttp.ClientError):
            await house.call("POST", path, data=orjson.dumps(body), headers=tagged if "model" in fields else None)

    now = await series(house)
    assert now == hostile.begun
    for name, labels in now:
        family = next(TABLE[found] for found in _families(name) if found in TABLE)
        for label, value in labels:
            if label == "engine":
                assert value == hostile.engine
            elif label == "rank":
                assert value == "0"
            elif label != "le":
                closed = family.labels[label]
                assert closed is not None
                assert value in closed


def _families(name: str) -> list[str]:
    """What the family of a series may be called."""
    return [name, *(name.removesuffix(ending) for ending in ("_bucket", "_count", "_sum"))]
