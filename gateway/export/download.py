"""Rows pulled from a running gateway, and put into a file of the form that its name asks for.

They are pulled as lines with a footer, first of all into a file of their own: what broke off on the way is noticed
before anything takes its place at the end.
"""

import asyncio
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO
from urllib.parse import quote

import orjson
from aiohttp import ClientError, ClientResponse, ClientSession, ClientTimeout
from rich.console import Console
from rich.progress import DownloadColumn, Progress, SpinnerColumn, TextColumn, TransferSpeedColumn

from gateway.core.types import JsonObject
from gateway.errors import ConfigError
from gateway.whole_file import whole_file
from gateway.wire.arrow import arrow_stream, need_pyarrow, write_parquet

_LINES = "application/x-ndjson"
_CONNECT_S, _SILENCE_S = 10.0, 300.0
"""How long to wait for the gateway, and for more of an answer: one row of a long context may take it a while."""
_COLUMNS = (".parquet", ".arrow")


class BrokenOff(Exception):
    """The rows were not to be had, or not all of them; the text says why."""


@dataclass(frozen=True, slots=True)
class Source:
    """Which rows of which gateway."""

    url: str
    key: str
    session_id: str | None
    """``None`` for those of many sessions."""
    query: Mapping[str, str]
    """As ``GET /trajectories`` takes it."""

    @property
    def path(self) -> str:
        """The path that answers with them."""
        return "/trajectories" if self.session_id is None else f"/sessions/{quote(self.session_id)}/trajectories"


def export_rows(source: Source, out: Path) -> int:
    """Write the rows to `out`, in the form of its suffix, and say how many they are.

    Raises:
        ConfigError: there is no such form, or pyarrow is needed and not installed.
        OSError: the file cannot be written.
        BrokenOff: the gateway cannot be reached, refuses, or does not send all of it as this version knows it.
    """
    if out.suffix not in (".ndjson", *_COLUMNS):
        raise ConfigError(f"--out {out}: its name must end in .ndjson, .parquet or .arrow")
    if out.suffix in _COLUMNS:
        need_pyarrow()
        source = Source(source.url, source.key, source.session_id, {**source.query, "arrays": "base64"})
    with whole_file(out) as file, tempfile.TemporaryFile(dir=out.parent) as pulled:
        asyncio.run(_pull(source, pulled))
        items = _Items(pulled)
        try:
            match out.suffix:
                case ".parquet":
                    write_parquet(file, map(orjson.loads, items))
                case ".arrow":
                    file.writelines(arrow_stream(map(orjson.loads, items)))
                case _:
                    file.writelines(items)
        except ValueError as error:
            raise BrokenOff(f"what the gateway sent cannot be read: {error}") from error
    return items.rows


class _Items:
    """The lines of an export, all of which must be there."""

    def __init__(self, pulled: BinaryIO) -> None:
        self._pulled = pulled
        self.rows = -1
        """How many rows there were, once all is read."""

    def __iter__(self) -> Iterator[bytes]:
        """Every line, the footer last.

        Raises:
            BrokenOff: the footer is missing, or counts other rows than there are.
        """
        self._pulled.seek(0)
        line = b""
        for line in self._pulled:
            self.rows += 1
            yield line
        last: object = orjson.loads(line) if line.endswith(b"\n") else None
        footer = last.get("footer") if isinstance(last, dict) else None
        if not isinstance(footer, dict) or footer.get("rows") != self.rows:
            raise BrokenOff("the gateway broke off: what came does not end in a footer that counts all of it")


async def _pull(source: Source, file: BinaryIO) -> None:
    headers = {"Accept": _LINES} | ({"Authorization": f"Bearer {source.key}"} if source.key else {})
    url = source.url.rstrip("/") + source.path
    patience = ClientTimeout(total=None, sock_connect=_CONNECT_S, sock_read=_SILENCE_S)
    try:
        async with (
            ClientSession(timeout=patience, headers=headers) as http,
            http.get(url, params={**source.query, "footer": "true"}) as answer,
        ):
            if answer.status != 200:
                raise BrokenOff(f"the gateway answered {answer.status}: {await _reason(answer)}")
            await _take(answer, file)
    except (ClientError, TimeoutError, ValueError) as error:
        raise BrokenOff(f"{source.url}: {str(error) or type(error).__name__}") from error


async def _take(answer: ClientResponse, file: BinaryIO) -> None:
    """Take the answer as it comes, with what has come so far on a terminal's standard error."""
    console = Console(stderr=True)
    columns = SpinnerColumn(), TextColumn("{task.fields[rows]} rows"), DownloadColumn(), TransferSpeedColumn()
    with Progress(*columns, console=console, transient=True, disable=not sys.stderr.isatty()) as progress:
        task, rows = progress.add_task("", total=None, rows=0), 0
        async for piece in answer.content.iter_any():
            file.write(piece)
            rows += piece.count(b"\n")
            progress.update(task, advance=len(piece), rows=rows)


async def _reason(answer: ClientResponse) -> str:
    body = await answer.read()
    try:
        error: JsonObject = orjson.loads(body)["error"]
        return str(error["message"])
    except (orjson.JSONDecodeError, KeyError, TypeError):
        return f"{answer.reason or ''}: is this a rollout-gateway?"
