"""Play captured conversations of real clients through a gateway: ``python -m tests.clients.play_captures FOLDER``.

Each ``.json`` file of the folder is a list of ``{"path", "body", "server_sent"}``: what a client sent to a server of
chat completions, and what that answered. Here a simulated engine samples the same answers, and the client's next
request holds ours, rewritten as the client had rewritten the captured ones. What was streamed then is streamed
here. The exit status is 1 when a request that continues an earlier one was not bridged.
"""

import asyncio
import json
import logging
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import structlog
from aiohttp import ClientResponse, ClientSession
from aiohttp.test_utils import TestServer

from gateway.app import create_app
from gateway.render.demo import FOLDER, MODEL_NAME
from gateway.settings import Settings
from gateway.sim import create_sim
from gateway.sim.vocabulary import Vocabulary
from tests.clients.replay import Json, Untraceable, replayed_like
from tests.clients.script import call, says
from tests.edge.streams import Streamed, read_chunks

SPLIT_RATE = 0.3


@dataclass(slots=True)
class Request:
    """One captured request, the answer it got then, and the one it got here."""

    body: Json
    sent: Json
    """The assistant's message as it was answered then."""
    parent: "Request | None" = None
    """The request whose answer is the last that this one holds."""
    session: str = ""
    turn: Json = field(default_factory=dict)
    """The turn here, as the gateway recorded it; empty when it was refused."""
    ours: Json = field(default_factory=dict)
    """The assistant's message here."""
    streamed: bool = False
    """Whether it came as a stream."""
    faults: list[str] = field(default_factory=list)
    """Why it cannot be bridged: what the client wrote anew, or why the gateway refused it."""

    @property
    def messages(self) -> list[Json]:
        """The history that it sends."""
        messages: list[Json] = self.body["messages"]
        return messages

    @property
    def continues(self) -> bool:
        """Whether it holds an answer."""
        return any(message["role"] == "assistant" for message in self.messages)


def read(capture: Sequence[Json]) -> list[Request]:
    """The chat requests of a capture, each with the one that it continues."""
    requests: list[Request] = []
    for entry in capture:
        if entry["path"].endswith("/chat/completions"):
            answer = entry["server_sent"]
            sent = answer["stream_of"] if "stream_of" in answer else answer["choices"][0]["message"]
            request = Request(entry["body"], sent)
            request.parent = next((other for other in reversed(requests) if _follows(request, other)), None)
            requests.append(request)
    return requests


def _follows(request: Request, other: Request) -> bool:
    """Whether the last answer in `request` stands where the answer to `other` would, and all calls are the same."""
    at = len(other.messages)
    places = [place for place, message in enumerate(request.messages) if message["role"] == "assistant"]
    return (
        places[-1:] == [at]
        and request.messages[0] == other.messages[0]
        and _call_ids(request.messages[:at]) == _call_ids(other.messages)
        and set(_call_ids(request.messages[at:])) <= set(_call_ids([other.sent]))
    )


def _call_ids(messages: Sequence[Json]) -> list[str]:
    calls = [call for message in messages for call in message.get("tool_calls") or ()]
    return [call["id"] for call in calls if call.get("id")]


def history(request: Request) -> list[Json]:
    """Its messages as the client would send them, had it talked to us all along."""
    answers: dict[int, Request] = {}
    ids: dict[str, str] = {}
    before = request.parent
    while before is not None:
        answers[len(before.messages)] = before
        ids |= dict(zip(_call_ids([before.sent]), _call_ids([before.ours]), strict=False))
        before = before.parent
    messages = []
    for place, message in enumerate(request.messages):
        replayed = message
        if message.get("tool_call_id") in ids:
            replayed = message | {"tool_call_id": ids[message["tool_call_id"]]}
        if place in answers:
            try:
                replayed = replayed_like(answers[place].sent, message, answers[place].ours)
            except Untraceable as what:
                request.faults.append(f"{what} written anew")
        elif message["role"] == "assistant":
            request.faults.append("an answer in another place")
        messages.append(replayed)
    return messages


class Player:
    """Plays requests through one gateway, whose engine samples what each asks for."""

    def __init__(self, http: ClientSession) -> None:
        self._http = http
        self._vocabulary = Vocabulary(FOLDER)

    async def play(self, name: str, requests: Sequence[Request]) -> None:
        """Send each in its session, keep our answer, and then what was recorded."""
        turns: dict[str, Request] = {}
        for number, request in enumerate(requests):
            nearest = request.parent or (requests[number - 1] if number and request.continues else None)
            request.session = nearest.session if nearest else f"{name}-{number}"
            ours = {"model": MODEL_NAME, "messages": history(request), "vllm_xargs": {"script": self._script(request)}}
            async with self._http.post(
                f"sessions/{request.session}/v1/chat/completions", json=request.body | ours
            ) as response:
                await _take(request, response)
                if response.status == 200:
                    turns[response.headers["x-turn-id"]] = request
        for session in {request.session for request in turns.values()}:
            async with self._http.get(f"sessions/{session}/turns", raise_for_status=True) as response:
                for turn in (await response.json())["data"]:
                    turns[turn["turn_id"]].turn = turn

    def _script(self, request: Request) -> list[int]:
        functions = [made["function"] for made in request.sent.get("tool_calls") or ()]
        calls = [call(function["name"], function["arguments"]) for function in functions]
        text = says(request.sent.get("content") or "", *calls, reasoning=request.sent.get("reasoning_content"))
        return self._vocabulary.spell(text, SPLIT_RATE, Random(text))


async def _take(request: Request, response: ClientResponse) -> None:
    """The message of an answer, whole or streamed, or why there is none."""
    if response.content_type == "text/event-stream":
        request.streamed = True
        streamed = Streamed(response.status, response.headers)
        async for _ in read_chunks(response, streamed):
            pass
        if streamed.done:
            request.ours = streamed.message
        else:
            request.faults.append(f"broken off: {(streamed.error or {}).get('message')}")
    elif response.status == 200:
        request.ours = (await response.json())["choices"][0]["message"]
    else:
        request.faults.append(f"refused with {response.status}: {(await response.json())['error']['message']}")


@dataclass(frozen=True, slots=True)
class Report:
    """What became of one capture."""

    name: str
    requests: int
    streamed: int
    """Of those, answered with a stream."""
    continuing: int
    bridged: int
    """Of those that continue."""
    forked: Counter[str]
    """Those that continue and were not bridged, by the gateway's reason and the faults of the request."""
    differences: Counter[str]
    """Turns in which the replayed history differed, by kind."""

    def __str__(self) -> str:
        counts = (
            f"{self.requests} requests, {self.streamed} streamed, {self.continuing} continuing, {self.bridged} bridged"
        )
        return f"{self.name}: {counts}; forked: {_listed(self.forked)}; differences: {_listed(self.differences)}"


def _listed(counts: Counter[str]) -> str:
    return ", ".join(f"{kind} {count}" for kind, count in sorted(counts.items())) or "none"


async def play(captures: Mapping[str, Sequence[Json]]) -> list[Report]:
    """Play the captures, by name, through a gateway of their own."""
    async with TestServer(create_sim(model=MODEL_NAME, tokenizer=FOLDER)) as engine:
        app = create_app(Settings(model=MODEL_NAME, engine=(str(engine.make_url("")),)))
        async with TestServer(app) as gateway, ClientSession(gateway.make_url("/")) as http:
            return [await _report(Player(http), name, read(capture)) for name, capture in captures.items()]


async def _report(player: Player, name: str, requests: Sequence[Request]) -> Report:
    await player.play(name, requests)
    continuing = [request for request in requests if request.continues]
    forked = [request for request in continuing if request.turn.get("how") != "bridged"]
    return Report(
        name=name,
        requests=len(requests),
        streamed=sum(request.streamed for request in requests),
        continuing=len(continuing),
        bridged=len(continuing) - len(forked),
        forked=Counter(_reason(request) for request in forked),
        differences=Counter(kind for request in requests for kind in request.turn.get("differences", ())),
    )


def _reason(request: Request) -> str:
    return "; ".join(filter(None, [request.turn.get("reason"), *dict.fromkeys(request.faults)]))


def main(folder: str) -> int:
    """Play what is in the folder and print a line for each file with chat requests."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    captures = {path.stem: json.loads(path.read_text()) for path in sorted(Path(folder).glob("*.json"))}
    reports = [report for report in asyncio.run(play(captures)) if report.requests]
    sys.stdout.writelines(f"{report}\n" for report in reports)
    return int(any(report.forked for report in reports))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
