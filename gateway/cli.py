"""The command line. The flags of ``gateway serve`` are the settings, one for one."""

import asyncio
import inspect
import os
import signal
import sys
from contextlib import suppress
from pathlib import Path
from typing import Annotated, get_origin

import orjson
import typer
import uvloop
from pydantic_core import PydanticUndefined

from gateway import __version__
from gateway.edge import log
from gateway.errors import ConfigError
from gateway.settings import Settings, load_settings

cli = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)


@cli.callback()
def gateway() -> None:
    """Exact tokens between LLM agents and the engines of an RL training run."""


def serve(**flags: object) -> None:
    """Serve agents until stopped; prints one JSON line when ready. Every flag is also a GATEWAY_… variable."""
    log.configure()
    try:
        settings = load_settings(**flags)
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(_serve(settings))
    except ConfigError as error:
        print(f"gateway: {error}", file=sys.stderr)
        sys.exit(2)


def _flag(name: str) -> inspect.Parameter:
    """A setting as an optional flag; what it may hold is for `Settings` to say."""
    setting = Settings.model_fields[name]
    kind = list[str] if get_origin(setting.annotation) is tuple else bool if setting.annotation is bool else str
    default = f" [default: {setting.default}]" if setting.default not in (PydanticUndefined, None, False, ()) else ""
    text = (setting.description or "").replace("`", "") + default
    option = typer.Option(f"--{name.replace('_', '-')}", help=text, show_default=False)
    annotation = Annotated[kind | None, option]  # type: ignore[valid-type]  # made at run time
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)


serve.__signature__ = inspect.Signature([_flag(name) for name in Settings.model_fields])  # type: ignore[attr-defined]
cli.command()(serve)


@cli.command()
def demo(
    engine: Annotated[str | None, typer.Option(help="URL of a real vLLM instead of the simulated one")] = None,
    model: Annotated[str | None, typer.Option(help="Where the tokenizer of what it serves is found")] = None,
    model_name: Annotated[str | None, typer.Option(help="The name that renderers are matched on")] = None,
) -> None:
    """Three agents, a gateway and an engine in one process; then a table of what became of their tokens."""
    from gateway.demo import run  # as above

    try:
        sys.exit(0 if run(engine, model, model_name) else 1)
    except ConfigError as error:
        print(f"gateway: {error}", file=sys.stderr)
        sys.exit(2)


async def _serve(settings: Settings) -> None:
    from gateway.app import serve as serve_app  # its imports take seconds, which --help should not

    serving = asyncio.current_task()
    assert serving is not None
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, serving.cancel)
    with suppress(asyncio.CancelledError):
        await serve_app(settings, _announce)


def _announce(url: str) -> None:
    line = {"event": "ready", "url": url, "pid": os.getpid(), "version": __version__}
    print(orjson.dumps(line).decode(), flush=True)


def main() -> None:
    """Entry point of the console scripts."""
    sys.path.insert(0, str(Path.cwd()))  # so that --renderer module:factory finds a module of the current folder
    cli()
