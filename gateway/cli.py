"""The command line."""

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import Annotated, Any

import orjson
import typer
import uvloop

from gateway import __version__
from gateway.edge import log
from gateway.errors import ConfigError
from gateway.settings import Settings, load_settings

cli = typer.Typer(no_args_is_help=True, add_completion=False, help="Exact tokens between LLM agents and RL engines.")


@cli.callback()
def gateway() -> None:
    """Exact tokens between LLM agents and the engines of an RL training run."""


@cli.command()
def serve(
    model: Annotated[str | None, typer.Option(help="Where the tokenizer is found: a folder or a hub id.")] = None,
    model_name: Annotated[str | None, typer.Option(help="The name renderers are matched on; default: --model.")] = None,
    engine: Annotated[list[str] | None, typer.Option(help="Base URL of a vLLM server; repeatable.")] = None,
    engine_key: Annotated[str | None, typer.Option(help="The API key that the engines want.")] = None,
    renderer: Annotated[str | None, typer.Option(help="auto, prime or module:factory.")] = None,
    thinking_retention: Annotated[str | None, typer.Option(help="all, tool_cycle or template.")] = None,
    allow_bridgeless: Annotated[
        bool | None, typer.Option("--allow-bridgeless", help="Render every turn in full.")
    ] = None,
    store: Annotated[str | None, typer.Option(help="Where turns are kept: memory.")] = None,
    host: Annotated[str | None, typer.Option(help="Address to listen on; default 127.0.0.1.")] = None,
    port: Annotated[int | None, typer.Option(help="Port to listen on; default 8080, 0 takes a free one.")] = None,
    agent_key: Annotated[str | None, typer.Option(help="Key that opens the agents' routes.")] = None,
    admin_key: Annotated[str | None, typer.Option(help="Key that opens every route.")] = None,
    insecure: Annotated[bool | None, typer.Option("--insecure", help="Serve beyond loopback without a key.")] = None,
    max_body_bytes: Annotated[int | None, typer.Option(help="Largest request body; default 64 MiB.")] = None,
    connect_timeout_s: Annotated[float | None, typer.Option(help="How long connecting to an engine may take.")] = None,
) -> None:
    """Serve agents until stopped; prints one JSON line when ready. Every flag is also a GATEWAY_… variable."""
    flags = dict(locals())
    log.configure()
    try:
        settings = load_settings(**flags)
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(_serve(settings))
    except ConfigError as error:
        sys.exit(_usage_error(error))


async def _serve(settings: Settings) -> None:
    from gateway.app import serve as serve_app  # its imports take seconds, which --help should not

    loop = asyncio.get_running_loop()
    ready: asyncio.Future[str] = loop.create_future()
    serving = asyncio.create_task(serve_app(settings, ready))
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, serving.cancel)
    waited: set[asyncio.Future[Any]] = {serving, ready}
    await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
    if ready.done():
        line = {"event": "ready", "url": ready.result(), "pid": os.getpid(), "version": __version__}
        print(orjson.dumps(line).decode(), flush=True)
    await asyncio.wait([serving])
    if not serving.cancelled():
        serving.result()


def _usage_error(error: ConfigError) -> int:
    print(f"gateway: {error}", file=sys.stderr)
    return 2


def main() -> None:
    """Entry point of the console scripts."""
    sys.path.insert(0, str(Path.cwd()))  # so that --renderer module:factory finds a module of the current folder
    cli()
