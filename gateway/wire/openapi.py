"""``/openapi.json``: the routes of an application, described by OpenAPI 3.1.

What each of them takes and answers is said in `gateway.wire.operations`, by types that only tests hold to what is read
and written: nothing is checked by them at run time.
"""

from collections.abc import Iterable, Mapping
from functools import cache
from http import HTTPStatus
from typing import Any, NamedTuple, cast

import orjson
from pydantic import TypeAdapter
from pydantic.json_schema import GenerateJsonSchema

from gateway import __version__
from gateway.core.types import JsonObject
from gateway.wire.admin_bodies import ErrorBody
from gateway.wire.operations import JSON, OPERATIONS, Operation
from gateway.wire.row_schema import COMPONENTS, row_schemas

ABOUT = """\
The gateway between LLM agents and the engines of an RL training run. Agents speak OpenAI's chat dialect under `/v1`,
or under `/sessions/{sid}/v1`, and trainers read their sessions as rows: exact token ids, logprobs, loss masks and
policy versions.

Without any key everybody may call everything. With keys, `agent` in a security requirement is opened by the agent's key
and the admin's, `admin` by the admin's only. Bodies are JSON of 64 levels and 1 MiB for one object in them at most.
Integers are written without a point. `x-item-schema` is what each event of a stream is, or each line.

A path that is not described here is 404, another method with 405 and `Allow`, and both have an `ErrorBody`."""
_SECURITY = {
    "bearer": {"type": "http", "scheme": "bearer", "description": "As OpenAI's SDKs send a key."},
    "key": {"type": "apiKey", "in": "header", "name": "x-api-key", "description": "As Anthropic's SDKs send a key."},
}
_BODY_REFUSALS = (400, 413, 415)
_ENGINES = "4XX"
"""An engine's own refusals, whatever their status."""
_SID = {
    "name": "sid",
    "in": "path",
    "required": True,
    "schema": {"type": "string", "minLength": 1, "maxLength": 512},
    "description": "The session's id. Slashes in it may stand as they are, or as `%2F`.",
}
_ALWAYS = {"x-request-id": "The request's id: the client's own, if it sent one."}
_RETRY = {
    "Retry-After": "Seconds, where another try may succeed.",
    "x-should-retry": "`false` where no other try will.",
}


class Route(NamedTuple):
    """A route of an application."""

    method: str
    path: str
    """With `{name}` for what varies."""
    summary: str
    """The first line of what its handler says of itself."""


class _Schemas(GenerateJsonSchema):
    """Schemas without a title for every field, which would say its name again."""

    def field_title_should_be_set(self, schema: Any) -> bool:  # noqa: ARG002  # pydantic calls it so
        return False


@cache
def describe(routes: tuple[Route, ...]) -> bytes:
    """The description of these routes, as JSON. To make it takes 0.3 s, so it is made once for each set.

    Raises:
        KeyError: nothing is said of a route in `OPERATIONS`.
    """
    known = [(route, OPERATIONS[route.method, route.path]) for route in routes]
    schemas, components = _schemas()
    paths: dict[str, dict[str, object]] = {}
    for route, operation in known:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(operation, route, schemas)
    return orjson.dumps(
        {
            "openapi": "3.1.1",
            "info": {
                "title": "rollout-gateway",
                "version": __version__,
                "description": ABOUT,
                "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
            },
            "servers": [{"url": "/"}],
            "paths": paths,
            "components": {
                "schemas": components,
                "responses": _responses(schemas[_key(ErrorBody)]),
                "securitySchemes": _SECURITY,
            },
        }
    )


def _schemas() -> tuple[Mapping[str, JsonObject], JsonObject]:
    """The schema of each type that an operation names, by the type's `_key`, and what these refer to."""
    types = {_key(kind): kind for operation in OPERATIONS.values() for kind in _types(operation)}
    adapters = [(key, "validation", TypeAdapter[Any](cast(Any, kind))) for key, kind in types.items()]
    made, defined = TypeAdapter.json_schemas(
        cast(Any, adapters), ref_template=COMPONENTS + "{model}", schema_generator=_Schemas
    )
    components = {**cast(JsonObject, defined["$defs"]), **row_schemas()}
    return {key: cast(JsonObject, schema) for (key, _), schema in made.items()}, dict(sorted(components.items()))


def _key(kind: object) -> str:
    return repr(kind)


def _types(operation: Operation) -> Iterable[object]:
    """What it names as components: not its parameters."""
    named = (operation.answer, operation.body, *(operation.media or {}).values(), ErrorBody)
    return [kind for kind in named if kind is not None]


def _operation(operation: Operation, route: Route, schemas: Mapping[str, JsonObject]) -> JsonObject:
    parameters = [_SID] if "{sid}" in route.path else []
    parameters += [parameter for kind in operation.query for parameter in _parameters(kind, "query")]
    parameters += [parameter for kind in operation.headers for parameter in _parameters(kind, "header")]
    described: dict[str, object] = {
        "operationId": operation.name,
        "summary": route.summary,
        "tags": [operation.topic],
        "security": [] if operation.opens == "nobody's" else [{name: [operation.opens]} for name in _SECURITY],
        "responses": _answers(operation, schemas) | {str(status): _refusal(status) for status in _refusals(operation)},
    }
    if parameters:
        described["parameters"] = parameters
    if operation.body is not None:
        content = {JSON: {"schema": schemas[_key(operation.body)]}}
        described["requestBody"] = {"required": operation.body_required, "content": content}
    return described


def _parameters(kind: object, place: str) -> Iterable[dict[str, object]]:
    """One for each field of a type."""
    whole = TypeAdapter[Any](cast(Any, kind)).json_schema(schema_generator=_Schemas)
    for name, schema in whole["properties"].items():
        said = {"description": schema.pop("description")} if "description" in schema else {}
        lists = {"style": "form", "explode": False} if schema.get("type") == "array" else {}
        yield {"name": name, "in": place, "required": False, "schema": schema, **lists, **said}


def _answers(operation: Operation, schemas: Mapping[str, JsonObject]) -> dict[str, object]:
    """What is answered where nothing is wrong with the request, by status."""
    content: dict[str, object] = {}
    if operation.answer is not None:
        content[JSON] = {"schema": schemas[_key(operation.answer)]}
    for media, item in (operation.media or {}).items():
        of_items = {} if item is None else {"x-item-schema": schemas[_key(item)]}
        content[media] = {"schema": {"type": "string"}, **of_items}
    headers = _headers(_ALWAYS | dict(operation.answer_headers or {}))
    shown = {"headers": headers, "content": content} if content else {"headers": headers}
    return {str(status): {"description": HTTPStatus(status).phrase, **shown} for status in operation.statuses}


def _refusals(operation: Operation) -> list[int | str]:
    """The statuses of its errors, in order."""
    if operation.opens == "nobody's":
        return []
    closed = (401, 403) if operation.opens == "admin" else (401,)
    ill = _BODY_REFUSALS if operation.body is not None else ()
    return sorted({*closed, *ill, *operation.also, 500}, key=str)


def _refusal(status: int | str) -> JsonObject:
    return {"$ref": f"#/components/responses/{_response_name(status)}"}


def _response_name(status: int | str) -> str:
    return "EngineRefused" if status == _ENGINES else HTTPStatus(int(status)).phrase.title().replace(" ", "")


def _responses(error: JsonObject) -> JsonObject:
    """The errors that there are, by name; they have one body."""
    statuses = {status for operation in OPERATIONS.values() for status in _refusals(operation)}
    said = {status: "" if status == _ENGINES else HTTPStatus(int(status)).phrase for status in statuses}
    whole = {"headers": _headers(_ALWAYS | _RETRY), "content": {JSON: {"schema": error}}}
    return {
        _response_name(status): {"description": what or "What an engine refused, with its status", **whole}
        for status, what in sorted(said.items(), key=str)
    }


def _headers(said: Mapping[str, str]) -> JsonObject:
    return {name: {"description": what, "schema": {"type": "string"}} for name, what in said.items()}
