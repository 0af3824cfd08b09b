"""What a streamed token costs the gateway, and what coalescing saves: ``python -m bench.streaming``.

One to a thousand streams are open at once, behind an engine that puts one token or eight into an event. For each,
CPU time of this process a token is measured while the engine talks, for several flush intervals, beside the floor: an
aiohttp application in this process that relays the engine's bytes as they come. Opening and ending a call is left out.
Prints each as a multiple of the floor, with its microseconds and the events that were sent, both a token.
Exit code 1 when the adaptive interval costs more than `MOST_TIMES` the floor where most streams are open.
"""

import argparse
import asyncio
import cProfile
import logging
import pstats
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from unittest.mock import patch

import structlog
import uvloop
from aiohttp import ClientSession, TCPConnector, web

from bench.ends import MARK, Emission, Ends, RemoteEnds
from gateway import app as application
from gateway.edge.stream import Streams
from gateway.render.demo import MODEL_NAME
from gateway.render.registry import load_tokenizer
from gateway.settings import Settings

STREAMS = (1, 32, 256, 1000)
ENGINE_INTERVALS = (1, 8)
FLUSH_MS = (0, None, 20, 50)
"""``None`` is adaptive."""
ROUNDS = 2
"""Each cost is the best of so many."""
MOST_TIMES = 12.0


def relay(engine: str) -> web.Application:
    """The floor: what the engine says, sent on as it is."""

    async def answer(request: web.Request) -> web.StreamResponse:
        body, response = await request.read(), web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        async with request.app[http].post(f"{engine}/inference/v1/generate", data=body) as upstream:
            await response.prepare(request)
            async for chunk in upstream.content.iter_any():
                await response.write(chunk)
        return response

    async def client(app: web.Application) -> AsyncIterator[None]:
        async with ClientSession(connector=TCPConnector(limit=0)) as app[http]:
            yield

    http = web.AppKey("http", ClientSession)
    app = web.Application()
    app.router.add_post("/{number}", answer)
    app.cleanup_ctx.append(client)
    return app


@asynccontextmanager
async def served(app: web.Application) -> AsyncIterator[int]:
    """Serve as the gateway does; the port."""
    runner = web.AppRunner(app, handler_cancellation=True, access_log=None)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0, backlog=4096).start()
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()


def gateway(engine: str) -> tuple[web.Application, Streams]:
    """A gateway, and its streams, so that they can be told another interval while they are open."""
    streams = Streams(buffer_bytes=256 * 1024, stall_s=60.0, keep_alive_s=15.0)
    with patch.object(application, "_streams", return_value=streams):
        return application.create_app(Settings(model=MODEL_NAME, engine=(engine,))), streams


async def cost(ends: RemoteEnds, count: int, interval: int) -> tuple[float, float]:
    """CPU microseconds a token, and events a token, while `count` streams are open."""
    emission = Emission(24 if count < 1000 else 16, interval, 0.02 if count <= 32 else 0.04)
    costs = []
    for _ in range(ROUNDS):
        started_s = time.process_time()
        events = await ends.call(Ends.emit, emission)
        assert isinstance(events, float)
        costs.append(((time.process_time() - started_s) * 1e6 / (count * emission.tokens), events))
    return min(costs)


async def measured(ends: RemoteEnds, floor: int, port: int, streams: Streams, count: int, interval: int) -> float:
    """Print the costs of one number of streams and one size of the engine's events; how the adaptive one compares."""
    await ends.call(Ends.open, floor, "/{}", count)
    base_us, _ = await cost(ends, count, interval)
    await ends.call(Ends.close)
    adaptive = 0.0
    line = f"streams={count} engine_interval={interval} floor_us={base_us:.0f}"
    await ends.call(Ends.open, port, "/sessions/{}/v1/chat/completions", count)
    for flush_ms in FLUSH_MS:
        streams.flush_interval_s = None if flush_ms is None else flush_ms / 1000
        us, events = await cost(ends, count, interval)
        name = "adaptive" if flush_ms is None else f"flush_{flush_ms}ms"
        line += f" {name}={us / base_us:.2f} ({us:.0f}us, {events:.2f}ev)"
        adaptive = us / base_us if flush_ms is None else adaptive
    await ends.call(Ends.close)
    print(line, flush=True)
    return adaptive


async def profiled(ends: RemoteEnds, port: int, count: int, interval: int) -> None:
    """Print what the gateway does while `count` streams are open, at the adaptive interval."""
    await ends.call(Ends.open, port, "/sessions/{}/v1/chat/completions", count)
    with cProfile.Profile(time.thread_time) as profile:
        await cost(ends, count, interval)
    await ends.call(Ends.close)
    pstats.Stats(profile).sort_stats("tottime").print_stats(45)


async def run(options: argparse.Namespace) -> int:
    """Measure everything, or profile one thing."""
    (token_id,) = load_tokenizer(MODEL_NAME, MODEL_NAME).encode(MARK, add_special_tokens=False)
    ends = RemoteEnds(token_id)
    app, streams = gateway(ends.url)
    async with served(app) as port, served(relay(ends.url)) as floor:
        try:
            if options.profile:
                await profiled(ends, port, options.profile, options.interval)
                return 0
            times = 0.0
            for count in STREAMS:
                for interval in ENGINE_INTERVALS:
                    times = await measured(ends, floor, port, streams, count, interval)
        finally:
            ends.end()
    return int(times > MOST_TIMES)


def main() -> int:
    """Measure as the flags say."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--profile", type=int, metavar="STREAMS", help="show what so many streams spend their time on")
    parser.add_argument("--interval", type=int, default=8, help="tokens in an event of the engine's, when profiling")
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(run(parser.parse_args()))


if __name__ == "__main__":
    sys.exit(main())
