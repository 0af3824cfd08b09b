"""``gateway audit``."""

import sys
from pathlib import Path
from typing import Annotated

import typer


def audit(
    file: Annotated[Path, typer.Argument(help="Rows: .ndjson, .json, .parquet or .arrow, as exports write them")],
    engine: Annotated[list[str], typer.Option(help="URL of a vLLM that serves the policy; repeatable")],
    engine_key: Annotated[str, typer.Option(help="The key that it wants", envvar="GATEWAY_ENGINE_KEY")] = "",
    model: Annotated[str | None, typer.Option(help="The model to ask it for (default: the only one)")] = None,
    teacher: Annotated[
        list[str] | None, typer.Option(help="URL of a vLLM with the same tokenizer, whose scores go into --out")
    ] = None,
    teacher_key: Annotated[str, typer.Option(help="The key that it wants", envvar="GATEWAY_TEACHER_KEY")] = "",
    teacher_model: Annotated[str | None, typer.Option(help="The model to ask it for")] = None,
    out: Annotated[
        Path | None, typer.Option(help="What to write the rows to with teacher_logprobs: .ndjson, .parquet or .arrow")
    ] = None,
    max_gap: Annotated[
        float | None, typer.Option(help="Largest |gap| in nats that is right; beyond it, exit 1")
    ] = None,
    tokens_in_flight: Annotated[
        int | None, typer.Option(min=1, help="Tokens of rows that are scored at once (default: as POST /score)")
    ] = None,
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print {rows: […], all: {…}}.")] = False,
) -> None:
    """Score rows again and say how far what was recorded lies from it; docs/scoring.md says what that means."""
    from gateway.audit.run import audited  # its imports take seconds, which --help should not
    from gateway.audit.scoring import Pool
    from gateway.errors import ConfigError, EngineUnavailable
    from gateway.wire.score import TOKENS_IN_FLIGHT

    bound = tokens_in_flight or TOKENS_IN_FLIGHT
    try:
        if (teacher is None) != (out is None):
            raise ConfigError("--teacher and --out belong together: who scores, and where the scores go")
        policy = Pool(tuple(engine), engine_key, model, bound)
        teachers = Pool(tuple(teacher), teacher_key, teacher_model, bound) if teacher else None
        report = audited(file, policy, teachers, out)
    except (ConfigError, EngineUnavailable, OSError) as error:
        print(f"gateway audit: {error}", file=sys.stderr)
        sys.exit(2)
    if as_json:
        from orjson import OPT_INDENT_2, dumps

        print(dumps(report.as_object(), option=OPT_INDENT_2).decode())
    else:
        from rich.console import Console

        report.show(Console())
    sys.exit(report.fails(max_gap))
