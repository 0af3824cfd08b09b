"""The gateway as an aiohttp application."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import suppress

import structlog
from aiohttp import web

from gateway.core.budget import Budget
from gateway.core.terms import Terms
from gateway.edge.backends import Backends
from gateway.edge.calls import Calls
from gateway.edge.engine import Engine
from gateway.edge.log import configure as configure_log
from gateway.edge.log import hush
from gateway.edge.metrics import Metrics
from gateway.edge.probe import Probes
from gateway.edge.retries import Retries
from gateway.edge.rows_answer import RowsAnswers
from gateway.edge.score import Scorer
from gateway.edge.server import Keys, Server
from gateway.edge.sessions import Sessions
from gateway.edge.side_arrays import WantedArrays
from gateway.edge.store import MemoryStore, Store
from gateway.edge.stream import Streams
from gateway.edge.tasks import WaitedTasks
from gateway.edge.turn import Deps
from gateway.errors import ConfigError
from gateway.render import registry
from gateway.render.protocol import Renderer
from gateway.settings import Settings
from gateway.wire.noise import Noise

log = structlog.get_logger()

_FAREWELL_S = 3.0
"""When turns have ended: how long clients may take to read the last answers, or to send the rest of a request."""
_BACKLOG = 4096
"""Connections that may wait to be accepted: all agents of a run begin at once, and what is refused here tries again
after a second at best."""


def create_app(settings: Settings, renderer: Renderer | None = None, *, store: Store | None = None) -> web.Application:
    """The gateway as `settings` have it, with a renderer or a store of your own if you bring them.

    Run it with ``handler_cancellation=True``, as `serve` does: otherwise a client that hangs up goes
    unnoticed and its engine samples on. What it logs goes to standard error as JSON lines, unless structlog has been
    configured.

    Raises:
        ConfigError: the tokenizer or the renderer cannot be had, or the renderer can never bridge.
    """
    hush()
    if not structlog.is_configured():
        configure_log()
    tokenizer = registry.load_tokenizer(settings.model, settings.model_name or settings.model)
    spec, retention, lax = settings.renderer, settings.thinking_retention, settings.allow_bridgeless
    renderers, notes = registry.resolve(spec, tokenizer, renderer, retention=retention, bridgeless_ok=lax)
    for note in notes:
        log.warning(note)
    metrics = Metrics()
    engine_key = settings.engine_key.get_secret_value()
    engines = [Engine(url, key=engine_key, connect_timeout_s=settings.connect_timeout_s) for url in settings.engine]
    backends = Backends(engines, metrics, Probes(renderers.small_prompt()))
    deps = Deps(
        renderers,
        backends,
        store or MemoryStore(),
        metrics,
        stream_interval_tokens=settings.stream_interval_tokens,
        require_exact=settings.logprobs == "require-exact",
        wanted=WantedArrays(settings.side_arrays),
    )
    budget = Budget(settings.max_context_tokens, settings.max_completion_tokens, settings.max_turns)
    defaults = Terms(budget=budget, rule=settings.sampling, client_seed=settings.client_seed)
    sessions = Sessions(policy=settings.matching, defaults=defaults, tombstone_ttl_s=settings.tombstone_ttl_s)
    keys = Keys(settings.agent_key.get_secret_value(), settings.admin_key.get_secret_value())
    noise = Noise(settings.noise_prefix, settings.noise_key)
    tasks = WaitedTasks(settings.disconnect_grace_s)
    retries = Retries(settings.retry_window_s, settings.retry_window_calls, time.monotonic)
    streams = _streams(settings)
    metrics.watch(streams.buffered_bytes)
    calls = Calls(deps, sessions, tasks, retries, streams=streams, noise=noise, tag_headers=settings.tag_header)
    scorer, answers = Scorer(backends, settings.score_tokens_in_flight), RowsAnswers(settings.stream_stall_s)
    server = Server(deps, keys, sessions, calls, scorer, answers)
    app = web.Application(client_max_size=settings.max_body_bytes, middlewares=[server.guard])
    app.on_response_prepare.append(server.sign)
    app.add_routes(server.routes())
    app.on_shutdown.append(lambda _app: tasks.drain())
    app.cleanup_ctx.append(lambda _app: _lifespan(server))
    return app


def _streams(settings: Settings) -> Streams:
    flush_interval_s = None if settings.flush_interval_ms is None else settings.flush_interval_ms / 1000
    return Streams(settings.stream_buffer_bytes, settings.stream_stall_s, settings.keep_alive_s, flush_interval_s)


async def _lifespan(server: Server) -> AsyncIterator[None]:
    """Watch the engines while the application runs; turns have ended before they are closed."""
    backends = server.deps.backends
    await backends.begin()
    watch = asyncio.create_task(backends.watch())
    yield
    watch.cancel()
    with suppress(asyncio.CancelledError):
        await watch
    await server.calls.tasks.drain()  # a request that came late has begun another
    await backends.close()
    server.deps.render_thread.shutdown(wait=False)
    server.answers.thread.shutdown(wait=False)


async def serve(settings: Settings, announce: Callable[[str], None]) -> None:
    """Serve until cancelled; `announce` is called with the URL once requests are accepted.

    Raises:
        ConfigError: the application cannot be made, or the address cannot be listened on.
    """
    app = create_app(settings)
    # aiohttp waits so long twice: for clients, and then for those whose requests it has broken off.
    runner = web.AppRunner(app, handler_cancellation=True, access_log=None, shutdown_timeout=_FAREWELL_S / 2)
    await runner.setup()
    try:
        await web.TCPSite(runner, settings.host, settings.port, backlog=_BACKLOG).start()
        host, port = runner.addresses[0][:2]
        announce(f"http://{f'[{host}]' if ':' in host else host}:{port}")
        await asyncio.Event().wait()
    except OSError as error:
        raise ConfigError(f"--host {settings.host} --port {settings.port}: {error.strerror or error}") from error
    finally:
        await runner.cleanup()
