"""JSON in and out, and how errors leave."""

import hmac

import orjson
from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from gateway.sim.personality import NOT_FOUND, Json, Personality, Refused, error


def json_response(body: object, *, status: int = 200) -> web.Response:
    """A response with a JSON body."""
    return web.Response(body=orjson.dumps(body), status=status, content_type="application/json")


async def read_json(request: web.Request, personality: Personality) -> Json:
    """The object that a request carries; raises `Refused` as vLLM does when it is none."""
    if request.content_type != "application/json":
        text = "1 validation error:\n  Unsupported Media Type: Only 'application/json' is allowed"
        raise Refused(400, error(400, "Bad Request", text))
    try:
        body = orjson.loads(await request.read())
    except orjson.JSONDecodeError as cause:
        raise personality.invalid("1", "JSON decode error", {}) from cause
    if not isinstance(body, dict):
        raise personality.invalid("", "Input should be a valid dictionary", body)
    return body


def gatekeeper(personality: Personality, api_key: str | None) -> Middleware:
    """The middleware that checks keys and routes, and writes what is refused."""

    @web.middleware
    async def answer(request: web.Request, handler: Handler) -> web.StreamResponse:
        guarded = request.path.startswith(("/v1", "/inference"))
        given = request.headers.get("Authorization", "").encode()
        if api_key is not None and guarded and not hmac.compare_digest(given, f"Bearer {api_key}".encode()):
            return json_response({"error": "Unauthorized"}, status=401)
        try:
            personality.admit(request.path)
            return await handler(request)
        except Refused as refused:
            return json_response(refused.body, status=refused.status)
        except web.HTTPNotFound:
            return json_response(NOT_FOUND, status=404)
        except web.HTTPMethodNotAllowed:
            return json_response({"detail": "Method Not Allowed"}, status=405)

    return answer
