"""``gateway mask``."""

import sys
from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer


class Truncate(StrEnum):
    """Where a row that is too long is cut."""

    LEFT = "left"
    RIGHT = "right"
    REFUSE = "refuse"


def mask(
    file: Annotated[Path, typer.Argument(help='JSON lines of {"messages": […], "tools"?: […]}', dir_okay=False)],
    model: Annotated[str, typer.Option(help="Where the tokenizer is found: a folder, or a hub id")],
    model_name: Annotated[str | None, typer.Option(help="The name that renderers are matched on")] = None,
    renderer: Annotated[str, typer.Option(help="As for `gateway serve`")] = "auto",
    renderer_name: Annotated[str | None, typer.Option(help="As for `gateway serve`")] = None,
    renderer_config: Annotated[str | None, typer.Option(help="As for `gateway serve`")] = None,
    render_url: Annotated[str | None, typer.Option(help="As for `gateway serve`")] = None,
    engine_key: Annotated[
        str, typer.Option(help="The API key that the server at --render-url wants", envvar="GATEWAY_ENGINE_KEY")
    ] = "",
    tool_format: Annotated[str | None, typer.Option(help="As for `gateway serve`")] = None,
    max_tokens: Annotated[int | None, typer.Option(help="The longest row (default: no limit)", min=1)] = None,
    truncate: Annotated[Truncate, typer.Option(help="Where a longer row is cut")] = Truncate.REFUSE,
    out: Annotated[Path | None, typer.Option(help="Written when all is done (default: standard output)")] = None,
) -> None:
    """Conversations as token ids and loss mask, for supervised training; exit 1 names what has no clear boundary."""
    from gateway.errors import ConfigError
    from gateway.mask.conversations import Conversations, Faulty  # seconds, which --help should not take
    from gateway.render.options import Options, config_of
    from gateway.whole_file import whole_file

    try:
        options = Options(
            name=renderer_name,
            config=config_of(renderer_config) if renderer_config is not None else None,
            tool_format=tool_format,
            render_url=render_url,
            api_key=engine_key,
        )
        conversations = Conversations(model, model_name or model, renderer, max_tokens, truncate.value, options=options)
        with file.open("rb") as lines, whole_file(out) if out else nullcontext(sys.stdout.buffer) as written:
            for line in conversations.masked(_watched(lines, file.stat().st_size)):
                written.write(line)
    except (ConfigError, OSError) as error:
        print(f"gateway mask: {error}", file=sys.stderr)
        sys.exit(2)
    except Faulty as error:
        print(f"gateway mask: {error}", file=sys.stderr)
        sys.exit(1)
    for note in conversations.notes:
        print(f"gateway mask: {note}", file=sys.stderr)
    print(f"gateway mask: {conversations.summary()}", file=sys.stderr)


def _watched(lines: Iterable[bytes], size_bytes: int) -> Iterator[bytes]:
    """The lines, and a bar on standard error that grows with them where that is a terminal."""
    from rich.console import Console  # as above
    from rich.progress import BarColumn as Bar
    from rich.progress import DownloadColumn, Progress, TextColumn, TimeElapsedColumn

    columns = TextColumn("masked"), Bar(), DownloadColumn(), TimeElapsedColumn()
    hidden = not sys.stderr.isatty()
    with Progress(*columns, console=Console(stderr=True), transient=True, disable=hidden) as progress:
        task = progress.add_task("", total=size_bytes or None)
        for line in lines:
            yield line
            progress.advance(task, len(line))
