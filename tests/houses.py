"""Fixtures for tests against whole gateways: simulated engines, each on a socket of its own."""

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from functools import cache
from typing import Any

import pytest
from aiohttp.test_utils import TestClient

from gateway.app import create_app
from gateway.edge.store import Store
from gateway.render import registry
from gateway.render.protocol import Renderer
from gateway.render.registry import Renderers
from gateway.settings import Settings
from gateway.sim import create_sim
from tests.edge.house import MODEL_NAME, House, Json, OpenHouse, Words, serving
from tests.edge.keeping import KeepingStore

_load_tokenizer: Callable[..., Any] = cache(registry.load_tokenizer)
_renderers_for: Callable[..., Any] = cache(registry.renderers_for)


@pytest.fixture(autouse=True)
def loaded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Loading the tokenizer takes a second, and making its renderer a quarter of one: once a session is enough."""
    monkeypatch.setattr(registry, "load_tokenizer", _load_tokenizer)
    monkeypatch.setattr(registry, "renderers_for", _renderers_for)


@pytest.fixture(scope="session")
def renderers(tokenizer_folder: str) -> Renderers:
    """The renderers that every gateway of these tests has."""
    tokenizer = _load_tokenizer(tokenizer_folder, MODEL_NAME)
    made: Renderers = _renderers_for("auto", tokenizer, None, retention="all", bridgeless_ok=False)[0]
    return made


@pytest.fixture(scope="session")
def words(renderers: Renderers) -> Words:
    """Texts as ids."""
    return Words(renderers.tokenizer)


@pytest.fixture
async def open_house(tokenizer_folder: str) -> AsyncIterator[OpenHouse]:
    """Open a gateway: `sim` are the settings of its engine, the rest its own; with `engine`, there is no sim.

    `renderer` is an object, or the name of a backend.

    Both sockets are `narrow` if asked for.
    """
    async with AsyncExitStack() as stack:

        async def open_one(
            *,
            sim: Json | None = None,
            ranks: int = 1,
            store: Store | None = None,
            renderer: Renderer | str | None = None,
            narrow: bool = False,
            **settings: Any,
        ) -> House:
            engine = None
            if "engine" not in settings:
                engine = create_sim(**(sim or {}))
                server = await stack.enter_async_context(serving(engine, narrow=narrow))
                settings["engine"] = (str(server.make_url("")) + (f"#dp={ranks}" if ranks > 1 else ""),)
            settings = {"model": tokenizer_folder, "model_name": MODEL_NAME} | settings
            if isinstance(renderer, str):
                settings["renderer"], renderer = renderer, None
            settings.setdefault("resume_attempts", 0)  # a fault is to be seen, not mended
            settings.setdefault("drain_timeout_s", 0.0)  # or a test that fails waits for its turns
            app = create_app(Settings(**settings), renderer, store=store)
            gateway = await stack.enter_async_context(serving(app, narrow=narrow))
            http = await stack.enter_async_context(TestClient(gateway))
            if isinstance(store, KeepingStore):
                stack.callback(store.release)  # the application ends only when its last turn is kept
            return House(http, engine)

        yield open_one


@pytest.fixture
async def house(open_house: OpenHouse) -> House:
    """A gateway with the newest engine."""
    return await open_house()
