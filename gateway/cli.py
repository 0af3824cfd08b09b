"""The command line. The flags of ``gateway serve`` are the settings, one for one."""

import asyncio
import inspect
import os
import sys
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, get_origin

import orjson
import typer
from pydantic import SecretStr
from pydantic_core import PydanticUndefined

from gateway import process
from gateway.audit.command import audit
from gateway.doctor.command import doctor
from gateway.edge import log
from gateway.engines.command import engines
from gateway.errors import ConfigError
from gateway.export.command import export
from gateway.mask.command import mask
from gateway.sessions.command import sessions
from gateway.settings import Settings
from gateway.settings_sources import FILES, flag_of, load, load_settings
from gateway.verify.command import verify

if TYPE_CHECKING:
    from gateway.edge.check import Finding

cli = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)


@cli.callback()
def gateway() -> None:
    """Exact tokens between LLM agents and the engines of an RL training run."""
    log.hush()


def serve(**flags: object) -> None:
    """Serve agents until stopped; prints one JSON line when ready. Every flag is also a GATEWAY_… variable, and every
    setting may stand in the file that --config names.
    """
    log.configure_process()
    try:
        settings = load_settings(**flags)
        status = process.run(_serve(settings), exit_with_parent=settings.exit_with_parent)
    except ConfigError as error:
        print(f"gateway: {error}", file=sys.stderr)
        status = 2
    sys.exit(status)


async def _serve(settings: Settings) -> bool:
    from gateway import app  # its imports take seconds, which --help should not

    return await app.serve(settings, process.announce)


def check(**flags: object) -> None:
    """Look at model, renderer, engines and limits as `serve` would meet them; exit 1 when something fails."""
    as_json = flags.pop("json")
    try:
        settings = load_settings(**flags)
    except ConfigError as error:
        print(f"gateway: {error}", file=sys.stderr)
        sys.exit(2)
    findings = asyncio.run(_check(settings))
    if as_json:
        print(orjson.dumps(findings, option=orjson.OPT_INDENT_2).decode())
    else:
        _report(findings)
    sys.exit(any(finding.status == "fail" for finding in findings))


def config(**flags: object) -> None:
    """Print the settings as `serve` would have them, each with where it comes from; of keys only whether they are set.

    Nothing is started or looked for; exit 2 where `serve` would refuse them.
    """
    from gateway import settings_shown  # as below

    as_json = flags.pop("json")
    try:
        loaded = load(flags)
        loaded.settings.renderer_options  # noqa: B018  # they are settings, too
    except ConfigError as error:
        print(f"gateway: {error}", file=sys.stderr)
        sys.exit(2)
    if as_json:
        print(orjson.dumps(settings_shown.encode_settings(loaded), option=orjson.OPT_INDENT_2).decode())
    else:
        settings_shown.show_settings(loaded)


async def _check(settings: Settings) -> "list[Finding]":
    from gateway.edge import check as look  # its imports take seconds, which --help should not

    name = settings.model_name or settings.model
    found, prompt = look.check_model(
        settings.model,
        name,
        settings.renderer,
        settings.thinking_retention,
        bridgeless_ok=settings.allow_bridgeless,
        options=settings.renderer_options,
    )
    found.append(look.check_files())
    if not settings.engine:
        found.append(look.Finding("engines", "fail", "there is none", "name one with --engine http://host:port"))
    key, patience_s = settings.engine_key.get_secret_value(), settings.connect_timeout_s
    names = (settings.model, name)
    asked = [look.check_engine(url, names, prompt, key=key, connect_timeout_s=patience_s) for url in settings.engine]
    return [*found, *(finding for findings in await asyncio.gather(*asked) for finding in findings)]


def _report(findings: "list[Finding]") -> None:
    """One line each, in colour where standard output is a terminal."""
    from rich.console import Console
    from rich.text import Text

    console, colours = Console(), {"ok": "green", "warn": "yellow", "fail": "bold red"}
    for found in findings:
        remedy = f" → {found.remedy}" if found.remedy else ""
        status = (f"{found.status:<4}", colours[found.status])
        console.print(Text.assemble(status, f"  {found.check}: {found.finding}", (remedy, "bold")), soft_wrap=True)


def _flag(name: str) -> inspect.Parameter:
    """A setting as an optional flag; what it may hold is for `Settings` to say."""
    setting = Settings.model_fields[name]
    kind = list[str] if get_origin(setting.annotation) is tuple else bool if setting.annotation is bool else str
    usual = ", ".join(setting.default) if isinstance(setting.default, tuple) else setting.default
    default = f" (default: {usual})" if usual not in (PydanticUndefined, None, False, "", SecretStr("")) else ""
    return _option(name, kind, (setting.description or "").replace("`", "") + default)


def _option(name: str, kind: type, text: str) -> inspect.Parameter:
    flag = flag_of(name)
    names = f"{flag}/--no-{flag.removeprefix('--')}" if kind is bool else flag  # so that a flag can undo a file's word
    option = typer.Option(names, help=text, show_default=False)
    annotation = Annotated[kind | None, option]  # type: ignore[valid-type]  # made at run time
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)


def _json(text: str) -> inspect.Parameter:
    annotation = Annotated[bool, typer.Option("--json", help=text)]
    return inspect.Parameter("json", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=annotation)


_FLAGS = [*(_option(name, str, text) for name, text in FILES.items()), *map(_flag, Settings.model_fields)]
serve.__signature__ = inspect.Signature(_FLAGS)  # type: ignore[attr-defined]  # typer reads it
check.__signature__ = inspect.Signature([*_FLAGS, _json("Print a list of {check, status, finding, remedy}.")])  # type: ignore[attr-defined]  # likewise
config.__signature__ = inspect.Signature([*_FLAGS, _json("Print {setting: {value, source}}.")])  # type: ignore[attr-defined]  # likewise
cli.command()(serve)
cli.command()(check)
cli.command()(config)
cli.command()(verify)
cli.command()(mask)
cli.command()(audit)
cli.command(context_settings={"allow_interspersed_args": False})(doctor)

sessions.command()(export)
cli.add_typer(sessions, name="sessions")
cli.add_typer(engines, name="engines")


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


@cli.command()
def sim(  # its flags are the arguments of `create_sim`, which says more about them
    host: Annotated[str, typer.Option(help="address to listen on")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="0 is any free one")] = 8000,
    model: Annotated[
        str | None, typer.Option(help="folder with a tokenizer.json (default: the one that comes along)")
    ] = None,
    model_name: Annotated[str | None, typer.Option(help="name of the model it serves (default: as --model)")] = None,
    version: Annotated[str, typer.Option(help="the vLLM release it stands for, 0.20 to 0.32")] = "0.32.0",
    max_model_len: Annotated[int, typer.Option(help="tokens of prompt and output together")] = 40960,
    ranks: Annotated[int, typer.Option(help="data-parallel ranks")] = 1,
    max_running: Annotated[int, typer.Option(help="requests at once on a rank; others wait")] = 256,
    max_queued: Annotated[
        int | None, typer.Option(help="requests on all ranks, more get 503 (default: no limit)")
    ] = None,
    block_size: Annotated[int, typer.Option(help="tokens in a block of the prefix cache")] = 16,
    cache_blocks: Annotated[int, typer.Option(help="blocks a rank caches")] = 1 << 14,
    first_token_delay_s: Annotated[float, typer.Option(help="seconds before the first token")] = 0.0,
    prefill_delay_s: Annotated[float, typer.Option(help="seconds per prompt token that is not cached")] = 0.0,
    token_delay_s: Annotated[float, typer.Option(help="seconds per token of output")] = 0.0,
    split_rate: Annotated[float, typer.Option(help="share of tokens split as no tokenizer would")] = 0.1,
    api_key: Annotated[str | None, typer.Option(help="key to ask for (default: none)")] = None,
    routed_experts: Annotated[
        tuple[int, int] | None,
        typer.Option(help="layers and experts a token, of which it says which, as with --enable-return-routed-experts"),
    ] = None,
    logprobs_mode: Annotated[str, typer.Option(help="raw_logprobs or processed_logprobs")] = "raw_logprobs",
    *,
    sampling_mask: Annotated[bool, typer.Option(help="as --return-sampling-mask, since 0.28")] = False,
    scale_out: Annotated[bool, typer.Option(help="open what --enable-scale-out opens since 0.30")] = True,
    exit_with_parent: Annotated[bool, typer.Option(help="end when the process that started it ends")] = False,
) -> None:
    """Serve a simulated vLLM until stopped; prints one JSON line when ready."""
    knobs = dict(locals())
    log.configure_process()
    from gateway.sim import command  # only who wants a sim waits for its imports

    host, port, with_parent = (knobs.pop(name) for name in ("host", "port", "exit_with_parent"))
    try:
        work = command.serve(command.build(**knobs), host, port, process.announce)
        status = process.run(work, exit_with_parent=with_parent)
    except OSError as error:
        where = error.filename or f"--host {host} --port {port}"
        print(f"gateway sim: {where}: {error.strerror or error}", file=sys.stderr)
        status = 2
    except (ConfigError, ValueError) as error:
        print(f"gateway sim: {error}", file=sys.stderr)
        status = 2
    sys.exit(status)


def _keep_standard_descriptors() -> None:
    """Have what was closed be nowhere: else sockets take its number, which libuv and what prints take for their own."""
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest number that is free


def main() -> None:
    """Entry point of the console scripts. What they print is UTF-8 in any locale: JSON is, and tables have quotes."""
    _keep_standard_descriptors()
    if isinstance(sys.stdout, TextIOWrapper):  # it may be closed
        sys.stdout.reconfigure(encoding="utf-8", errors="replace")
    sys.path.insert(0, str(Path.cwd()))  # so that --renderer module:factory finds a module of the current folder
    cli()
