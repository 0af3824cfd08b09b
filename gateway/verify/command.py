"""``gateway verify``."""

import json
import sys
from pathlib import Path
from typing import Annotated

import typer


def verify(
    file: Annotated[Path, typer.Argument(help="rows as NDJSON, a JSON page, Parquet or an Arrow stream")],
    *,
    as_json: Annotated[bool, typer.Option("--json", help="print one object")] = False,
    strict: Annotated[
        bool, typer.Option("--strict", help="fail without a footer, or where a rollout has more rows")
    ] = False,
) -> None:
    """Derive every claim of a file of rows from it alone; exit 1 where one does not hold, 2 without a verdict."""
    from gateway.errors import ConfigError  # only who verifies waits for these
    from gateway.verify.verdict import verify as look

    try:
        verdict = look(file, strict=strict)
    except ConfigError as error:
        typer.echo(f"gateway verify: {error}", err=True)
        sys.exit(2)
    for warning in verdict.warnings:
        typer.echo(f"gateway verify: {file}: {warning}", err=True)
    typer.echo(json.dumps(verdict.as_json()) if as_json else str(verdict))
    sys.exit(1 if verdict.mismatch else 0)
