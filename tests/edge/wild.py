"""Simulated engines of which some paths do as a test wants."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from aiohttp import web
from aiohttp.test_utils import TestServer

from gateway.sim import create_sim

GENERATE, METRICS, MODELS, CONFIGURATION = "/inference/v1/generate", "/metrics", "/v1/models", "/server_info"
Hook = Callable[[web.Request], Awaitable[web.StreamResponse | None]]


def wild(**sim: Any) -> tuple[web.Application, dict[str, Hook]]:
    """An engine, and what it does at which paths before it answers, or instead."""
    hooks: dict[str, Hook] = {}

    @web.middleware
    async def hook(request: web.Request, handler: Any) -> web.StreamResponse:
        instead = await hooks[request.path](request) if request.path in hooks else None
        if instead is not None:
            return instead
        response: web.StreamResponse = await handler(request)
        return response

    app = create_sim(**sim)
    app.middlewares.insert(0, hook)
    return app, hooks


def url_of(server: TestServer) -> str:
    """The base URL of an engine."""
    return str(server.make_url("")).rstrip("/")


def slow(pause_s: float) -> Hook:
    """It takes its time."""

    async def late(_request: web.Request) -> None:
        await asyncio.sleep(pause_s)

    return late


def answers(status: int, text: str = "") -> Hook:
    """It answers something else."""

    async def other(_request: web.Request) -> web.StreamResponse:
        return web.Response(status=status, text=text)

    return other


def serves(*names: str, window: int = 40960) -> Hook:
    """The models that it lists."""
    cards = [{"id": name, "max_model_len": window} for name in names]

    async def models(_request: web.Request) -> web.StreamResponse:
        return web.json_response({"object": "list", "data": cards})

    return models


async def cut(request: web.Request) -> web.StreamResponse:
    """It closes the connection instead of an answer."""
    assert request.transport is not None
    request.transport.close()
    return web.Response()
