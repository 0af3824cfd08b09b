"""Bodies: JSON in, JSON out."""

from aiohttp import web

from gateway.errors import BadRequest


def refuse_other_media(request: web.Request) -> None:
    """Bodies are JSON: a client that says otherwise is told so; one that says nothing is believed."""
    kind = request.content_type
    if kind not in ("application/json", "application/octet-stream") and not kind.endswith("+json"):
        raise BadRequest(f"a body of {kind:.80} is not read here: send Content-Type: application/json", status=415)


async def body_of(request: web.Request) -> bytes:
    """The body, which may be empty."""
    body = await request.read()
    if body:
        refuse_other_media(request)
    return body


def json_answer(body: bytes, *, status: int = 200, headers: dict[str, str] | None = None) -> web.Response:
    """An answer that is JSON already."""
    return web.Response(body=body, status=status, content_type="application/json", headers=headers)
