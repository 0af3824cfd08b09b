"""``/openapi.json`` and ``/docs``: every route is described, and what the gateway answers is what is described."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import orjson
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from jsonschema import Draft202012Validator
from openapi_spec_validator import OpenAPIV31SpecValidator

from gateway.edge.description import routes_of
from gateway.wire.sse import SSEDecoder
from tests.edge.house import HELLO, TOOLS, Answer, House, Json, OpenHouse, Words, user
from tests.edge.routes import KEYS, bearer

LINES, COLUMNS = "application/x-ndjson", "application/vnd.apache.arrow.stream"


async def described(house: House) -> Json:
    """What the gateway says of its routes."""
    answer = await house.call("GET", "/openapi.json")
    assert answer.status == 200
    told: Json = answer.body
    return told


def operations(told: Json) -> dict[tuple[str, str], Json]:
    """The operations of a description, by method and path."""
    return {
        (method.upper(), path): operation
        for path, methods in told["paths"].items()
        for method, operation in methods.items()
    }


def app_of(house: House) -> web.Application:
    """The gateway itself."""
    server = house.http.server
    assert isinstance(server, TestServer)
    return server.app


@dataclass
class Witness:
    """Asks a gateway, and holds each of its answers to what is described of its route."""

    house: House
    told: Json

    async def ask(
        self, method: str, path: str, body: object = None, *, headers: Mapping[str, str] | None = None
    ) -> Answer:
        """One call."""
        data = body if isinstance(body, bytes) else None if body is None else orjson.dumps(body)
        answer = await self.house.call(method, path, data=data, headers=headers)
        route = self._route(method, path.partition("?")[0])
        said = operations(self.told)[route]["responses"]
        status = str(answer.status)
        key = status if status in said else f"{status[0]}XX"
        assert key in said, f"{route} answered {status}: {answer.body}"
        self._judge(self._whole(said[key]), answer)
        return answer

    def _route(self, method: str, path: str) -> tuple[str, str]:
        fitting = [
            (verb, known)
            for verb, known in operations(self.told)
            if verb == method and re.fullmatch(known.replace("{sid}", ".+"), path)
        ]
        return max(fitting, key=lambda route: len(route[1]))  # a session is also what its parts look like

    def _whole(self, answer: Json) -> Json:
        named = answer.get("$ref")
        whole: Json = self.told["components"]["responses"][named.rpartition("/")[2]] if named else answer
        return whole

    def _judge(self, said: Json, answer: Answer) -> None:
        told = {name.lower() for name in said["headers"]}
        ours = {name.lower() for name in answer.headers if name.lower().startswith(("x-", "retry-"))}
        assert "x-request-id" in ours <= told
        if "content" not in said:
            assert not answer.body
            return
        content = said["content"][answer.headers["Content-Type"].partition(";")[0]]
        for item in self._items(answer):
            self.validator(content.get("x-item-schema", content["schema"])).validate(item)

    def _items(self, answer: Answer) -> list[Any]:
        """What the schema of an answer is of: the body, or each event or line of it."""
        match answer.headers["Content-Type"].partition(";")[0]:
            case "text/event-stream":
                events = SSEDecoder().feed(answer.body.encode())
                return [orjson.loads(event) for event in events if event != b"[DONE]"]
            case "application/x-ndjson":
                return [orjson.loads(line) for line in answer.body.splitlines()]
        return [answer.body]

    def validator(self, schema: Json) -> Draft202012Validator:
        """What holds a value to a schema of the description."""
        return Draft202012Validator({"components": self.told["components"], **schema})


@pytest.fixture
async def witness(house: House) -> Witness:
    """Of a gateway with one engine."""
    return Witness(house, await described(house))


async def test_every_route_is_described_and_every_described_route_is_there(house: House) -> None:
    """By method and path; HEAD goes where GET does."""
    there = {(route.method, route.resource.canonical) for route in app_of(house).router.routes() if route.resource}
    assert operations(await described(house)).keys() == {(method, path) for method, path in there if method != "HEAD"}


async def test_the_description_is_valid(house: House) -> None:
    """By the specification's own schema, its references resolved."""
    assert list(OpenAPIV31SpecValidator(await described(house)).iter_errors()) == []


async def test_a_route_is_told_by_what_its_handler_says(house: House) -> None:
    """Each with a line on what it does and, where the path has one, a session's id."""
    told = operations(await described(house))
    summaries = {(route.method, route.path): route.summary for route in routes_of(app_of(house))}
    for (method, path), operation in told.items():
        assert operation["summary"] == summaries[method, path]
        assert operation["summary"].endswith(".")
        ids = [parameter for parameter in operation.get("parameters", ()) if parameter["in"] == "path"]
        assert [parameter["name"] for parameter in ids] == re.findall(r"\{(\w+)\}", path)


async def test_keys_open_what_is_described(open_house: OpenHouse) -> None:
    """No key, an agent's and the admin's, on every route."""
    house = await open_house(**KEYS)
    for (method, path), operation in operations(await described(house)).items():
        opens = {role for way in operation["security"] for roles in way.values() for role in roles}
        here = path.replace("{sid}", "s")
        if path == "/admin/drain":
            continue  # nothing would be served behind it
        statuses = [
            (await house.call(method, here, headers=headers)).status
            for headers in ({}, bearer(KEYS["agent_key"]), bearer(KEYS["admin_key"]))
        ]
        refused = {"": [False] * 3, "agent": [True, False, False], "admin": [True, True, False]}["".join(opens)]
        assert [status in (401, 403) for status in statuses] == refused, (method, path, statuses)


async def test_turns_are_answered_as_described(witness: Witness, words: Words) -> None:
    """Whole and streamed, with calls, thoughts, logprobs and ids, replayed, and refused."""
    call = words.called("Hm.", "weather", {"city": "Bern"})
    path, plain = "/sessions/s/v1/chat/completions", {"messages": HELLO, "max_tokens": 4}
    scripted = {"tools": TOOLS, "vllm_xargs": {"script": call}, "messages": [user("Weather?")]}
    for more in ({}, {"stream": True, "stream_options": {"include_usage": True}}):
        for asked in (plain, scripted, {**plain, "n": 2}):
            evidence = {"logprobs": True, "top_logprobs": 2, "return_token_ids": True}
            assert (await witness.ask("POST", path, {**asked, **more, **evidence})).status == 200
            assert (await witness.ask("POST", path, {**asked, **more})).status == 200
    again = await witness.ask("POST", path, plain, headers={"x-stainless-retry-count": "1"})
    assert again.headers["x-gateway-replayed"] == "true"
    assert (await witness.ask("POST", "/v1/chat/completions", plain)).status == 200
    for where in ("/v1", "/sessions/s/v1"):
        assert (await witness.ask("GET", f"{where}/models")).status == 200
    assert (await witness.ask("POST", path, {"messages": []})).status == 400
    assert (await witness.ask("POST", path, b"{", headers={"Content-Type": "text/plain"})).status == 415
    assert (await witness.ask("POST", path, {**plain, "model": "nobody's"})).status == 404


async def test_a_stream_that_fails_ends_as_described(witness: Witness, words: Words) -> None:
    """With an error in place of its end."""
    witness.house.faults.inject("cut", after=9)
    script = words.said("What is said until it breaks off, and then some more.")
    asked = {"messages": HELLO, "stream": True, "vllm_xargs": {"script": script}}
    answer = await witness.ask("POST", "/sessions/s/v1/chat/completions", asked)
    assert answer.status == 200
    assert answer.body.count('"error"') == 1
    assert "[DONE]" not in answer.body


async def test_a_failed_turn_is_answered_as_described(open_house: OpenHouse) -> None:
    """By an engine that is gone, and in a body that is too large."""
    house = await open_house(engine=("http://127.0.0.1:1",), max_body_bytes=1024)
    witness = Witness(house, await described(house))
    assert (await witness.ask("POST", "/v1/chat/completions", {"messages": HELLO})).status == 503
    assert (await witness.ask("POST", "/v1/chat/completions", {"messages": HELLO * 99})).status == 413
    assert (await witness.ask("GET", "/v1/models")).status == 503
    assert (await witness.ask("GET", "/ready")).status == 503
    assert (await witness.ask("POST", "/score", {"token_ids": [1]})).status == 503
    (engine,) = (await witness.ask("GET", "/admin/engines")).body["data"]
    assert engine["trouble"]


async def test_sessions_and_rows_are_answered_as_described(witness: Witness) -> None:
    """From their making to their end, in every form."""
    made = {"session_id": "g/1", "group_id": "g", "metadata": {"a": 1}, "sampling_params": {"stop": "x"}}
    made |= {"budget": {"max_turns": 2}, "forced_sampling_params": {"temperature": 1.0}, "sampling": "locked"}
    assert (await witness.ask("POST", "/sessions", made)).status == 201
    assert (await witness.ask("POST", "/sessions", made)).status == 409
    assert (await witness.ask("POST", "/sessions", {"group": "g"})).status == 400
    for _ in range(2):
        assert (await witness.house.ask("g/1", max_tokens=3)).status == 200
    spent = await witness.ask("POST", "/sessions/g/1/v1/chat/completions", {"messages": HELLO})
    assert spent.status == 429
    for path in ("/sessions", "/sessions?limit=1&group_id=g", "/sessions/g/1", "/sessions/g/1/turns"):
        assert (await witness.ask("GET", path)).status == 200
    assert (await witness.ask("GET", "/sessions/g/1/turns?ids=true")).status == 200
    assert (await witness.ask("POST", "/sessions/g/1/finish", {"reward": 1.0})).status == 200
    closed = await witness.ask("POST", "/sessions/g/1/v1/chat/completions", {"messages": HELLO})
    assert closed.status == 409
    for path in ("/trajectories", "/sessions/g/1/trajectories"):
        assert (await witness.ask("GET", path)).body["data"]
        assert (await witness.ask("GET", f"{path}?shared=split&arrays=base64")).status == 200
        lines = await witness.ask("GET", f"{path}?footer=true", headers={"Accept": LINES})
        assert "footer" in lines.body
        assert (await witness.ask("GET", path, headers={"Accept": "text/csv"})).status == 406
        assert (await witness.ask("GET", f"{path}?leaves=some")).status == 400
    token_ids = (await witness.ask("GET", "/trajectories")).body["data"][0]["token_ids"]
    assert (await witness.ask("POST", "/score", {"token_ids": token_ids})).status == 200
    assert (await witness.ask("POST", "/score", {"token_ids": []})).status == 400
    acknowledged = await witness.ask("POST", "/trajectories/ack", {"session_ids": ["g/1", "nobody"]})
    assert acknowledged.body == {"freed": ["g/1"], "unknown": ["nobody"], "open": []}
    for method, path in (("GET", "/sessions/x"), ("GET", "/sessions/x/turns"), ("POST", "/sessions/x/finish")):
        assert (await witness.ask(method, path)).status == 404
    assert (await witness.house.ask("s", max_tokens=1)).status == 200
    assert (await witness.ask("DELETE", "/sessions/s")).status == 204


async def test_what_operators_do_is_answered_as_described(witness: Witness) -> None:
    """Engines, pauses, policies, and the end."""
    (engine,) = (await witness.ask("GET", "/admin/engines")).body["data"]
    url = {"url": engine["url"]}
    assert (await witness.ask("POST", "/admin/engines", {**url, "draining": True})).body["ranks"][0]["draining"]
    assert (await witness.ask("POST", "/admin/engines", {**url, "draining": False, "rank": 0})).status == 200
    assert (await witness.ask("POST", "/admin/engines", {"url": "nowhere"})).status == 400
    assert (await witness.ask("DELETE", "/admin/engines?url=http://127.0.0.1:1")).status == 404
    assert (await witness.ask("GET", "/admin/policy")).body["version"] is None
    assert (await witness.ask("POST", "/admin/policy", {"version": "step-1"})).body["ordinal"] == 1
    paused = await witness.ask("POST", "/admin/pause", {"mode": "hold", "owner": "t", "lease_s": 9})
    assert paused.body["paused"]["owners"]
    assert (await witness.ask("GET", "/admin/pause")).body["paused"]
    assert (await witness.ask("POST", "/admin/resume", {"version": "step-2"})).body["paused"] is None
    assert (await witness.ask("POST", "/admin/pause", {})).status == 400
    for path in ("/health", "/ready", "/metrics", "/docs", "/openapi.json", "/admin/policy"):
        assert (await witness.ask("GET", path)).status == 200
    assert (await witness.ask("DELETE", "/admin/engines", url)).body["removed"]
    assert (await witness.ask("POST", "/admin/drain")).body["draining"]


async def test_what_is_not_described_is_answered_as_the_description_says(witness: Witness) -> None:
    """In its own words on top; by the body of an error."""
    error = witness.told["components"]["schemas"]["ErrorBody"]
    about = witness.told["info"]["description"]
    for method, path, status in (("GET", "/nothing", 404), ("POST", "/v1/responses", 404), ("PUT", "/metrics", 405)):
        answer = await witness.house.call(method, path)
        assert answer.status == status
        assert str(status) in about
        assert ("Allow" in answer.headers) is (status == 405)
        witness.validator(error).validate(answer.body)


async def test_the_page_and_the_description_are_made_once(house: House) -> None:
    """And are open to everybody; the page says no more than the description."""
    first, second = [await house.call("GET", "/docs") for _ in range(2)]
    assert first.body == second.body
    assert first.headers["Content-Type"] == "text/html; charset=utf-8"
    assert all(operation["operationId"] in first.body for operation in operations(await described(house)).values())
