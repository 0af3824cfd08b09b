"""``gateway sessions export``."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from gateway.errors import ConfigError


def export(
    gateway: Annotated[str, typer.Option(help="Where the gateway is: http://host:port", envvar="GATEWAY_ADMIN_URL")],
    out: Annotated[Path, typer.Option(help="What to write: .ndjson, .parquet or .arrow")],
    key: Annotated[str, typer.Option(help="Its --admin-key, if it has one", envvar="GATEWAY_ADMIN_KEY")] = "",
    session: Annotated[str | None, typer.Option(help="Rows of this session only, finished or not")] = None,
    group: Annotated[str | None, typer.Option(help="Rows of rollouts with a session of this group")] = None,
    status: Annotated[str | None, typer.Option(help="finished, open or all (default: finished)")] = None,
    leaves: Annotated[str | None, typer.Option(help="all or latest")] = None,
    include: Annotated[str | None, typer.Option(help="aborted")] = None,
    dropped: Annotated[str | None, typer.Option(help="include or exclude")] = None,
    distribution: Annotated[str | None, typer.Option(help="Train on these only, with commas between")] = None,
    max_staleness: Annotated[str | None, typer.Option(help="Policy versions that may lie between")] = None,
    shared: Annotated[str | None, typer.Option(help="once, split or duplicate")] = None,
    arrays: Annotated[str | None, typer.Option(help="How .ndjson has them: json or base64")] = None,
    routed_experts: Annotated[str | None, typer.Option(help="base64 or base85, for trainers that read them so")] = None,
) -> None:
    """Write rows of a running gateway to a file that is there whole or not at all; docs/rows.md says what is in it."""
    from gateway.admin_call import calling  # seconds, which --help should not take
    from gateway.export.download import export_rows

    asked = {"leaves": leaves, "include": include, "dropped": dropped, "distribution": distribution}
    asked |= {"max_staleness": max_staleness, "shared": shared, "arrays": arrays, "routed_experts": routed_experts}
    asked |= {"group_id": group, "status": status}
    with calling(gateway, key, said_by="gateway sessions export") as client:
        if session is not None and (group is not None or status is not None):
            raise ConfigError("--session names all that there is to say: leave out --group and --status")
        exported = export_rows(client.way, session, asked, out)
    print(f"gateway sessions export: {exported} rows in {out}", file=sys.stderr)
