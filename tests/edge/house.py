"""A gateway and the simulated engine behind it, on real sockets; what the tests of this room speak through."""

import asyncio
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from io import BytesIO
from typing import Any, cast

import orjson
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer, get_port_socket
from multidict import CIMultiDictProxy
from yarl import URL

from gateway.render.protocol import Tokenizer
from gateway.sim import FAULTS, JOURNAL
from gateway.sim.server import Entry, Faults

MODEL_NAME = "Qwen/Qwen3-8B"
IM_END = 151645
NARROW_BYTES = 4096

Json = dict[str, Any]
Application = web.Application
Http = TestClient[web.Request, web.Application]

TOOLS: list[Json] = [
    {
        "type": "function",
        "function": {
            "name": "weather",
            "description": "Weather of a city",
            "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
        },
    }
]


def user(text: str) -> Json:
    """A user's message."""
    return {"role": "user", "content": text}


HELLO = [user("Hello?")]


class Words:
    """Scripts for the engine: texts as ids, and back."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer

    def ids(self, text: str) -> list[int]:
        """The ids that the tokenizer itself chooses."""
        return self.tokenizer.encode(text, add_special_tokens=False)

    def spelt(self, text: str) -> list[int]:
        """The ids of each character alone, as no tokenizer would choose them."""
        return [token_id for character in text for token_id in self.ids(character)]

    def said(self, text: str) -> list[int]:
        """A whole answer, spelt, and its end."""
        return [*self.spelt(text), IM_END]

    def called(self, reasoning: str, name: str, arguments: Json) -> list[int]:
        """A whole answer that thinks, and then calls a tool, as Qwen3 writes it."""
        call = orjson.dumps({"name": name, "arguments": arguments}).decode()
        think, close = self.ids("<think>"), self.ids("</think>")
        opened, closed = self.ids("<tool_call>"), self.ids("</tool_call>")
        thought = [*think, *self.spelt(f"\n{reasoning}\n"), *close, *self.ids("\n\n")]
        return [*thought, *opened, *self.spelt(f"\n{call}\n"), *closed, IM_END]

    def text(self, ids: Sequence[int]) -> str:
        """What ids say."""
        return self.tokenizer.decode(ids)


@dataclass(frozen=True, slots=True)
class Answer:
    """What the gateway answered."""

    status: int
    headers: CIMultiDictProxy[str]
    body: Any

    @property
    def message(self) -> Json:
        """The assistant's message of a chat answer."""
        message: Json = self.body["choices"][0]["message"]
        return message

    @property
    def error(self) -> Json:
        """The error of a refusal, which has OpenAI's four fields and no more."""
        error: Json = self.body["error"]
        assert error.keys() == {"message", "type", "param", "code"}
        assert isinstance(error["message"], str)
        assert error["message"]
        return error


def generated(sim: Application) -> list[Entry]:
    """What an engine was asked to generate for turns, in order."""
    return [entry for entry in sim[JOURNAL].entries if not _is_probe(entry)]


def probes(sim: Application) -> list[Entry]:
    """The calls that probed an engine, in order."""
    return [entry for entry in sim[JOURNAL].entries if _is_probe(entry)]


def _is_probe(entry: Entry) -> bool:
    return (entry.request_id or "").startswith("probe-")


class House:
    """One gateway, and the sim behind it if there is one."""

    def __init__(self, http: Http, sim: Application | None) -> None:
        self.http = http
        self._sim = sim

    @property
    def sim(self) -> Application:
        """The simulated engine."""
        assert self._sim is not None
        return self._sim

    @property
    def journal(self) -> list[Entry]:
        """What the engine was asked to generate, in order; but for probes."""
        return generated(self.sim)

    @property
    def prompts(self) -> list[list[int]]:
        """The ids that the engine was given, call by call."""
        return [cast(list[int], entry.body["token_ids"]) for entry in self.journal]

    @property
    def params(self) -> list[Json]:
        """The sampling parameters that the engine was given, call by call."""
        return [cast(Json, entry.body["sampling_params"]) for entry in self.journal]

    @property
    def faults(self) -> Faults:
        """What will go wrong next."""
        return self.sim[FAULTS]

    async def ask(
        self,
        session: str | None,
        messages: Sequence[Json] = HELLO,
        script: Sequence[int] | None = None,
        *,
        headers: Mapping[str, str] | None = None,
        **fields: Any,
    ) -> Answer:
        """Ask for one chat turn, of the session in the path if there is one; the engine will emit `script`."""
        path = "/v1/chat/completions" if session is None else f"/sessions/{session}/v1/chat/completions"
        scripted = {} if script is None else {"vllm_xargs": {"script": list(script)}}
        body = {"messages": list(messages), **scripted, **fields}
        return await self.call("POST", path, data=orjson.dumps(body), headers=headers)

    async def call(
        self, method: str, path: str, *, data: bytes | None = None, headers: Mapping[str, str] | None = None
    ) -> Answer:
        """One request, its path sent as it stands."""
        url = self.http.make_url("/").with_path("/").join(URL(path, encoded=True))
        large = data is not None and len(data) > 1 << 20  # aiohttp's client wants these as files
        sent = BytesIO(data) if data is not None and large else data
        async with self.http.session.request(method, url, data=sent, headers=headers) as response:
            content = await response.read()
            is_json = response.content_type == "application/json"
            return Answer(response.status, response.headers, orjson.loads(content) if is_json else content.decode())

    async def send(self, method: str, path: str, **fields: Any) -> Answer:
        """One request with `fields` as its JSON body, or without any."""
        return await self.call(method, path, data=orjson.dumps(fields) if fields else None)

    async def shown(self, session: str) -> Json:
        """What ``GET /sessions/{sid}`` says."""
        answer = await self.send("GET", f"/sessions/{session}")
        assert answer.status == 200
        state: Json = answer.body
        return state

    async def turns(self, session: str) -> list[Json]:
        """The session's turns; none when the session is unknown."""
        return await self._listing(session, "turns")

    async def rows(self, session: str) -> list[Json]:
        """The session's training rows; none when the session is unknown."""
        return await self._listing(session, "trajectories")

    async def _listing(self, session: str, what: str) -> list[Json]:
        answer = await self.call("GET", f"/sessions/{session}/{what}")
        if answer.status == 404:
            assert answer.error["code"] == "session_not_found"
            return []
        assert answer.status == 200
        assert answer.body["next"] is None
        listing: list[Json] = answer.body["data"]
        return listing

    async def metric(self, name: str, **labels: str) -> float:
        """The sum of a metric over all labels that are not named."""
        text = (await self.call("GET", "/metrics")).body
        wanted = [f'{key}="{value}"' for key, value in labels.items()]
        lines = [line for line in text.splitlines() if line.startswith((f"{name}{{", f"{name} "))]
        return sum(float(line.rsplit(" ", 1)[1]) for line in lines if all(label in line for label in wanted))

    async def have_logprobs_told(self) -> None:
        """Have the engine asked of what it returns logprobs, for a turn that hangs on it; wait until it has told."""

        async def has_told() -> bool:
            (engine,) = (await self.call("GET", "/admin/engines")).body["data"]
            return engine["logprobs"] in ("processed", "raw")

        assert (await self.ask("asks", temperature=0.5)).status == 200
        await until(has_told)

    async def idle(self) -> None:
        """Wait until no turn holds an engine and the engine answers nobody."""

        async def is_idle() -> bool:
            return await self.metric("gateway_turns_in_flight") == 0 and self.sim[JOURNAL].running == 0

        await until(is_idle)


OpenHouse = Callable[..., Awaitable[House]]
"""What the fixture `open_house` gives."""


def is_final(answer: Answer, status: int, code: str) -> None:
    """A refusal that no SDK tries again."""
    assert (answer.status, answer.error["code"]) == (status, code)
    assert "Retry-After" not in answer.headers
    if status != 404:
        assert answer.headers["x-should-retry"] == "false"


async def listed(house: House, query: str = "") -> tuple[list[str], str | None]:
    """The ids on one page of sessions, and the cursor of the next."""
    answer = await house.send("GET", f"/sessions{query}")
    assert answer.status == 200
    return [session["session_id"] for session in answer.body["data"]], answer.body["next"]


async def until(holds: Callable[[], Any], *, within_s: float = 10.0) -> None:
    """Wait until `holds`, a function or a coroutine function, is true; fail when it takes longer than a busy machine may."""
    deadline = time.monotonic() + within_s
    while True:
        held = holds()
        if asyncio.iscoroutine(held):
            held = await held
        if held:
            return
        assert time.monotonic() < deadline, f"not within {within_s} s"
        await asyncio.sleep(0.005)


@asynccontextmanager
async def waiting(
    house: House, session: str | None, *args: Any, **fields: Any
) -> AsyncIterator["asyncio.Task[Answer]"]:
    """A client that waits for its answer; it hangs up at the end of the block, if it still waits."""
    task = asyncio.ensure_future(house.ask(session, *args, **fields))
    try:
        yield task
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


def _narrow_socket(host: str, port: int, family: socket.AddressFamily) -> socket.socket:
    listening = get_port_socket(host, port, family)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, NARROW_BYTES)
    return listening


@asynccontextmanager
async def serving(app: Application, *, port: int | None = None, narrow: bool = False) -> AsyncIterator[TestServer]:
    """An application on a real socket; of a `narrow` one the kernel takes little at a time."""
    server = TestServer(app, port=port, socket_factory=_narrow_socket if narrow else get_port_socket)
    await server.start_server()
    try:
        yield server
    finally:
        await server.close()


def extends(ids: Sequence[int], beginning: Sequence[int]) -> bool:
    """Whether `ids` are `beginning` and something more."""
    return len(ids) > len(beginning) and list(ids[: len(beginning)]) == list(beginning)
