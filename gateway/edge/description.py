"""``/openapi.json`` and ``/docs``: what the routes of an application take and answer, for programs and for people.

Both are open to everybody: they say what the code says, and nothing of a run.
"""

import asyncio
from collections.abc import Iterator

from aiohttp import hdrs, web

from gateway.edge.body import json_answer
from gateway.wire.description_page import page_of
from gateway.wire.openapi import Route, describe


class Description:
    """The handlers. What they answer is made when it is first asked for, in a thread of its own, and then kept."""

    def routes(self) -> list[web.RouteDef]:
        """Both routes."""
        return [web.get("/openapi.json", self.description), web.get("/docs", self.page)]

    async def description(self, request: web.Request) -> web.Response:
        """The description of every route, as OpenAPI 3.1."""
        return json_answer(await _description_of(request))

    async def page(self, request: web.Request) -> web.Response:
        """The same for people, on one page."""
        description = await _description_of(request)
        return web.Response(
            body=await asyncio.to_thread(page_of, description), content_type="text/html", charset="utf-8"
        )


async def _description_of(request: web.Request) -> bytes:
    return await asyncio.to_thread(describe, tuple(routes_of(request.app)))


def routes_of(app: web.Application) -> Iterator[Route]:
    """The routes of an application, but for HEAD, which goes where GET does."""
    for route in app.router.routes():
        if route.resource is not None and route.method != hdrs.METH_HEAD:
            said = (route.handler.__doc__ or "").strip()
            yield Route(route.method, route.resource.canonical, said.partition("\n")[0])
