"""The gateway as an aiohttp application."""

import asyncio
import gc
import time
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from dataclasses import fields
from functools import partial

import structlog
from aiohttp import web

from gateway.core.budget import Budget
from gateway.core.pool import Bounds
from gateway.core.terms import Terms
from gateway.core.types import UNKNOWN_VERSION
from gateway.core.versions import Versions
from gateway.edge.admin_engines import AdminEngines
from gateway.edge.admin_sync import AdminSync
from gateway.edge.backends import Backends
from gateway.edge.calls import Calls
from gateway.edge.control import EngineControl
from gateway.edge.deps import Deps, Resuming
from gateway.edge.drain import Draining
from gateway.edge.engine import Engine
from gateway.edge.gate import Gate
from gateway.edge.log import configure as configure_log
from gateway.edge.log import hush
from gateway.edge.loop_lag import watch_lag
from gateway.edge.loops import Loop, looping
from gateway.edge.metrics import Metrics
from gateway.edge.pause import Pauses
from gateway.edge.probe import Probes
from gateway.edge.retries import Retries
from gateway.edge.rows_answer import RowsAnswers
from gateway.edge.running import Running
from gateway.edge.score import Scorer
from gateway.edge.server import Keys, Server
from gateway.edge.sessions import Sessions
from gateway.edge.stall import Stalls
from gateway.edge.store import MemoryStore, Store
from gateway.edge.stream import Streams
from gateway.edge.tasks import WaitedTasks
from gateway.errors import ConfigError, EngineUnavailable
from gateway.render import registry
from gateway.render.options import Options
from gateway.render.patience import Patience
from gateway.render.protocol import Renderer
from gateway.render.registry import Renderers
from gateway.render.remote import RENDER
from gateway.render.render_server import RenderServer
from gateway.settings import Settings
from gateway.wire.generate import sends_each_id_alone
from gateway.wire.noise import Noise

log = structlog.get_logger()

DRAINING = web.AppKey("DRAINING", Draining)
"""How an application is drained by who runs it; to shut it down does the same."""
SESSIONS = web.AppKey("SESSIONS", Sessions)
"""What an application has recorded, for who runs it: to be read, while it runs or afterwards."""
_FAREWELL_S = 3.0
"""When turns have ended: how long clients may take to read the last answers, or to send the rest of a request."""
_LATE_S = 0.05
"""For connections that the kernel has made, and calls that it has read: closed unseen, they would be reset."""
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
    _set_up_log()
    renderers, metrics, make_engine = _renderers(settings, renderer), Metrics(), _engines(settings)
    gate, versions, running, prompt = Gate(), Versions(), Running(), renderers.small_prompt()
    probes = Probes(prompt, gate=gate, exact=settings.logprobs == "require-exact")
    engines = map(make_engine, settings.engine)
    backends = Backends(engines, metrics, gate, bounds=_bounds(settings), prompt=prompt)
    pauses = _pauses(settings, backends, running, versions)
    backends.when_admitted = pauses.admit
    deps = Deps(
        renderers,
        backends,
        store or MemoryStore(),
        metrics,
        ThreadPoolExecutor(renderers.calls_at_once, "render"),
        probes,
        versions=versions,
        running=running,
        cache_salt=settings.cache_salt,
        resuming=Resuming(settings.resume_attempts, Stalls(settings.engine_stall_s)),
        stream_interval_tokens=settings.stream_interval_tokens,
        side_arrays=settings.side_arrays,
    )
    server = _server(settings, deps)
    draining = Draining(server.sessions, server.calls.tasks, server.answering, settings.drain_timeout_s)
    admin = AdminEngines(backends, probes, running, metrics, make_engine, pauses.let_go)
    return _application(settings, server, AdminSync(pauses, draining, deps), admin)


def _set_up_log() -> None:
    hush()
    if not structlog.is_configured():
        configure_log()


def _renderers(settings: Settings, renderer: Renderer | None) -> Renderers:
    tokenizer = registry.load_tokenizer(settings.model, settings.model_name or settings.model)
    renderers, notes = registry.renderers_for(
        settings.renderer,
        tokenizer,
        renderer,
        retention=settings.thinking_retention,
        bridgeless_ok=settings.allow_bridgeless,
        options=settings.renderer_options,
    )
    chosen = renderers.chosen
    reads = renderers.get({}).reads
    log.info("a renderer was chosen", backend=chosen.backend, renderer=chosen.name, why=chosen.why, answers=reads)
    for note in notes:
        log.warning(note)
    return renderers


def _bounds(settings: Settings) -> Bounds:
    return Bounds(**{name.name: getattr(settings, name.name) for name in fields(Bounds)})


def _server(settings: Settings, deps: Deps) -> Server:
    """The agents' routes, and those on which turns and rows are read."""
    budget = Budget(settings.max_context_tokens, settings.max_completion_tokens, settings.max_turns)
    defaults = Terms(budget=budget, sampling_rule=settings.sampling, client_seed=settings.client_seed)
    ttl_s, over = settings.tombstone_ttl_s, deps.backends.forget
    sessions = Sessions(policy=settings.matching, defaults=defaults, tombstone_ttl_s=ttl_s, over=over)
    keys = Keys(settings.agent_key.get_secret_value(), settings.admin_key.get_secret_value())
    noise = Noise(settings.noise_prefix, settings.noise_key)
    tasks = WaitedTasks(settings.disconnect_grace_s)
    retries = Retries(settings.retry_window_s, settings.retry_window_calls, time.monotonic)
    streams = _streams(settings)
    census = sessions.census
    deps.metrics.show_sessions(lambda: len(sessions), lambda: census.turns, lambda: census.tokens)
    deps.metrics.show_streams(streams.buffered_bytes)
    deps.metrics.show_bridges(lambda: deps.renderers.certifications, deps.renderers.audits)
    calls = Calls(deps, sessions, tasks, retries, streams=streams, noise=noise, tag_headers=settings.tag_header)
    scorer = Scorer(deps.backends, settings.score_tokens_in_flight, deps.running)
    return Server(deps, keys, sessions, calls, scorer, RowsAnswers(settings.stream_stall_s))


def _application(settings: Settings, server: Server, sync: AdminSync, admin: AdminEngines) -> web.Application:
    sync.show(server.deps.metrics)
    app = web.Application(client_max_size=settings.max_body_bytes, middlewares=[server.guard])
    app.on_response_prepare.append(server.sign)
    app.add_routes([*server.routes(), *sync.routes(), *admin.routes()])
    app[DRAINING] = sync.draining
    app[SESSIONS] = server.sessions
    app.on_shutdown.append(lambda _app: sync.draining.finish())
    app.on_shutdown.append(lambda _app: sync.close())
    app.on_shutdown.append(lambda _app: admin.close())
    app.cleanup_ctx.append(lambda _app: _lifespan(server, sync))
    return app


def _engines(settings: Settings) -> Callable[[str], Engine]:
    """What makes an engine of a URL."""
    return partial(
        Engine,
        key=settings.engine_key.get_secret_value(),
        connect_timeout_s=settings.connect_timeout_s,
        abort_quiet_s=settings.abort_quiet_s,
    )


def _pauses(settings: Settings, backends: Backends, running: Running, versions: Versions) -> Pauses:
    salted = settings.cache_salt != "none"
    control = (
        EngineControl(
            lambda: backends.engines,
            keeps_caches=lambda: salted and versions.now != UNKNOWN_VERSION,
            answers=backends.answers,
        )
        if settings.engine_control
        else None
    )
    alone = partial(sends_each_id_alone, settings.stream_interval_tokens)
    lease_s = settings.pause_lease_s
    return Pauses(backends.gate, running, versions, lease_s=lease_s, control=control, sends_each_id_alone=alone)


def _streams(settings: Settings) -> Streams:
    flush_interval_s = None if settings.flush_interval_ms is None else settings.flush_interval_ms / 1000
    return Streams(settings.stream_buffer_bytes, settings.stream_stall_s, settings.keep_alive_s, flush_interval_s)


async def _lifespan(server: Server, sync: AdminSync) -> AsyncIterator[None]:
    """Watch the engines while the application runs; turns have ended before they are closed.

    Whatever fails at the start or the end, all the rest is closed.
    """
    deps, backends = server.deps, server.deps.backends
    async with AsyncExitStack() as last_first:
        last_first.callback(server.answers.thread.shutdown, wait=False)
        last_first.callback(deps.render_threads.shutdown, wait=False)
        last_first.push_async_callback(backends.close)
        last_first.push_async_callback(deps.probes.close)
        last_first.push_async_callback(server.calls.tasks.drain)  # a request that came late has begun another
        last_first.push_async_callback(sync.pauses.close)
        await backends.refresh()
        loops: list[Loop] = [backends.checks.run, sync.pauses.run, sync.draining.run, partial(watch_lag, deps.metrics)]
        if deps.resuming.attempts:
            loops.append(partial(deps.resuming.stalls.run, backends))
        await last_first.enter_async_context(looping(loops))
        yield


async def _until_drained(draining: Draining, site: web.BaseSite) -> None:
    """Wait until somebody has the gateway drained: to be cancelled is to begin it, and once more is to end it now."""
    try:
        await draining.done.wait()
    except asyncio.CancelledError:
        try:
            await asyncio.sleep(_LATE_S)
            await site.stop()
            draining.close()
            await draining.done.wait()
        except asyncio.CancelledError:
            draining.hurry()


async def _until_rendered(options: Options) -> None:
    """Wait for the server that renders, which may be starting, too; the others are waited for by the turns."""
    if options.render_url is None:
        return
    _set_up_log()
    log.info("the server that renders is waited for", url=options.render_url)
    patience, server = Patience(), RenderServer(options.render_url, api_key=options.api_key)
    try:
        await asyncio.to_thread(patience.run, lambda: server.wait(RENDER))
    except asyncio.CancelledError:
        patience.give_up()
        raise
    except EngineUnavailable as error:
        raise ConfigError(f"--renderer remote: {error.message}: start it before the gateway") from error


async def serve(settings: Settings, announce: Callable[[str], None]) -> bool:
    """Serve until cancelled, and then until no turn is in flight; cancelled once more, end at once.

    `announce` is called with the URL once requests are accepted. The answer is whether every call came to its end.

    Raises:
        ConfigError: the application cannot be made, or the address cannot be listened on.
    """
    if settings.renderer == "remote":
        await _until_rendered(settings.renderer_options)
    app = create_app(settings)
    # aiohttp waits so long twice: for clients, and then for those whose requests it has broken off.
    runner = web.AppRunner(app, handler_cancellation=True, access_log=None, shutdown_timeout=_FAREWELL_S / 2)
    await runner.setup()
    # The collector would walk through the tokenizer's libraries amid a turn, and hold the loop for a tenth of a second.
    gc.collect()
    gc.freeze()
    try:
        site = web.TCPSite(runner, settings.host, settings.port, backlog=_BACKLOG)
        await site.start()
        host, port = runner.addresses[0][:2]
        announce(f"http://{f'[{host}]' if ':' in host else host}:{port}")
        await _until_drained(app[DRAINING], site)
    except OSError as error:
        raise ConfigError(f"--host {settings.host} --port {settings.port}: {error.strerror or error}") from error
    finally:
        await runner.cleanup()
    return not app[DRAINING].broken
