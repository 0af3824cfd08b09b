"""What a real gateway exports of sessions that have everything which rows can have."""

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pytest
from aiohttp.test_utils import TestClient

from gateway.app import create_app
from gateway.render import registry
from gateway.render.demo import FOLDER, MODEL_NAME
from gateway.settings import Settings
from gateway.sim import create_sim
from gateway.sim.keys import CONTROL
from tests.edge.house import TOOLS, House, Json, Words, serving, until, user, waiting

NDJSON = {"Accept": "application/x-ndjson"}
QUERIES = {
    "once": "",
    "split": "&shared=split",
    "duplicate": "&shared=duplicate",
    "base64": "&arrays=base64",
    "aborted": "&include=aborted",
    "latest": "&leaves=latest",
    "dropped": "&dropped=exclude",
    "exact": "&distribution=exact,truncated,greedy",
    "fresh": "&max_staleness=0",
    "fresh_split": "&max_staleness=0&shared=split&arrays=base64&include=aborted",
}
"""Selections, by the names of the exports that they make."""


@dataclass(frozen=True, slots=True)
class Export:
    """A file of rows."""

    content: bytes

    @property
    def rows(self) -> list[Json]:
        """Its rows, read anew."""
        return [json.loads(line) for line in self.content.splitlines()[:-1]]

    @property
    def footer(self) -> Json:
        """What it ends in."""
        footer: Json = json.loads(self.content.splitlines()[-1])["footer"]
        return footer


class Script(Words):
    """Answers of the model that comes along, which takes less time to load than others."""

    def said(self, text: str) -> list[int]:
        """A whole answer, letter by letter."""
        return [*self.spelt(text), *self.ids("<|im_end|>")]

    def called(self, reasoning: str, name: str, arguments: Json) -> list[int]:
        """A thought and a call."""
        call = json.dumps({"name": name, "arguments": arguments})
        thought = [*self.ids("<think>\n"), *self.spelt(reasoning), *self.ids("\n</think>\n\n<tool_call>\n")]
        return [*thought, *self.spelt(call), *self.ids("\n</tool_call><|im_end|>")]


@pytest.fixture(scope="session")
def exports() -> Mapping[str, Export]:
    """The same session exported by each of `QUERIES`."""
    return asyncio.run(_exports())


async def _exports() -> dict[str, Export]:
    sim = create_sim(tokenizer=FOLDER)
    async with serving(sim) as engine:
        settings: dict[str, Any] = {"model": MODEL_NAME, "engine": (str(engine.make_url("")),)}
        async with serving(create_app(Settings(**settings))) as server, TestClient(server) as http:
            house = House(http, sim)
            await _live(house, Script(registry.load_tokenizer(MODEL_NAME, MODEL_NAME)))
            return {name: await _export(house, query) for name, query in QUERIES.items()}


async def _export(house: House, query: str) -> Export:
    answer = await house.call("GET", f"/sessions/r/trajectories?footer=true{query}", headers=NDJSON)
    assert answer.status == 200, answer.body
    return Export(answer.body.encode())


async def _live(house: House, words: Script) -> None:
    """A session with branches, tools, a compaction, turns not to be trained, of two policies, and an aborted one."""

    async def ask(messages: list[Json], said: list[int] | None = None, **fields: Any) -> list[Json]:
        answer = await house.ask("r", messages, said, **fields)
        assert answer.status == 200, answer.body
        return [*messages, answer.message]

    tools = {"tools": TOOLS, "temperature": 1.0}
    await house.send("POST", "/sessions", session_id="r", group_id="g", metadata={"täsk": [1, 2.5, None]})
    house.sim[CONTROL].version = "v1"
    begun = await ask([user("Hello?")], temperature=0.7, top_p=0.9)
    one = await ask([*begun, user("Say one.")], words.said("Öne."))
    await ask([*begun, user("Say one.")], words.said("Uno."), headers={"x-gateway-train": "false"})
    house.faults.inject("stall", after=4)
    calls = len(house.journal)
    async with waiting(house, "r", [*one, user("Say more.")], words.said("More and more and more.")):
        await until(lambda: len(house.journal) > calls and len(house.journal[-1].emitted) >= 4)
    await house.idle()
    await ask([*one, user("And two?")], words.said("Two or three or four.")[:5], max_tokens=5)
    house.sim[CONTROL].version = "v2"
    asked = [user("Weather?")]
    called = await ask(asked, words.called("I wonder.", "weather", {"city": "Zürich"}), **tools)
    result = {"role": "tool", "tool_call_id": called[-1]["tool_calls"][0]["id"], "content": "Rain."}
    wet = await ask([*called, result], words.said("It rains."), **tools)
    await ask([user("In short: it rains."), user("So?")], temperature=0, max_tokens=9)
    await ask([*wet, user("And now?")], **tools)
    await house.send("POST", "/sessions/r/finish", reward=1)
