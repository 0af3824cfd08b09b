"""``gateway doctor``."""

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from gateway.errors import ConfigError

if TYPE_CHECKING:
    from gateway.doctor.report import Report


def doctor(
    command: Annotated[
        list[str], typer.Argument(help="The agent: CMD ARG…; {base_url} and {model} in it are replaced")
    ],
    turns: Annotated[
        int, typer.Option(min=2, max=64, help="Turns that the simulated model takes for each thing it is asked")
    ] = 4,
    timeout_s: Annotated[float, typer.Option(min=0.1, help="How long the agent may run before it is ended")] = 300.0,
    tool: Annotated[
        list[str] | None,
        typer.Option(help="A tool that the simulated model may call; repeatable (default: those that read only)"),
    ] = None,
    engine: Annotated[str | None, typer.Option(help="URL of a real vLLM instead of the simulated one")] = None,
    model: Annotated[str | None, typer.Option(help="Where the tokenizer of what it serves is found")] = None,
    model_name: Annotated[str | None, typer.Option(help="The name that it serves it under")] = None,
    engine_key: Annotated[str, typer.Option(help="The key that it wants", envvar="GATEWAY_ENGINE_KEY")] = "",
    *,
    stumble: Annotated[
        bool, typer.Option("--stumble", help="Have its second answer hold a call that is cut off")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the report as JSON: docs/doctor.schema.json")] = False,
) -> None:
    """Run an agent before a gateway and say how its harness treats history: what it rewrites, what that costs.

    Exit codes: 0 it keeps its prefix, 1 it breaks it, 2 it could not be run, 3 there was nothing to judge, 4 the
    agent itself failed.
    """
    from gateway.doctor.run import Engine, examine  # its imports take seconds, which --help should not

    try:
        asked = Engine(engine, model, model_name, engine_key, turns, frozenset(tool or ()), stumble)
        report = examine(command, timeout_s, asked)
    except ConfigError as error:
        print(f"gateway doctor: {error}", file=sys.stderr)
        sys.exit(2)
    _print(report, as_json=as_json)
    sys.exit(report.exit_code)


def _print(report: "Report", *, as_json: bool) -> None:
    if as_json:
        from orjson import OPT_INDENT_2, dumps

        print(dumps(report.as_object(), option=OPT_INDENT_2).decode())
    else:
        from rich.console import Console

        from gateway.doctor.table import show

        show(Console(), report)
