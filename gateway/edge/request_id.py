"""The id of a request: it is in the answer, in the log, and in what the engine is told."""

import secrets

from aiohttp import web

_MAX_CHARS = 128
_KEY = web.RequestKey("request_id", str)


def request_id_of(request: web.Request) -> str:
    """The client's own, cut where it is very long; a new one where it has none that can be printed."""
    if _KEY not in request:
        own = request.headers.get("X-Request-Id", "")[:_MAX_CHARS]
        request[_KEY] = own if own and own.isprintable() else f"req_{secrets.token_hex(12)}"
    return request[_KEY]
