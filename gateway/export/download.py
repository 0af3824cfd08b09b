"""Rows pulled from a running gateway, and put into a file of the form that its name asks for.

They are pulled as lines with a footer; for columns first of all into a file of their own. What broke off on the way is
noticed before anything takes its place at the end.
"""

import asyncio
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO
from urllib.parse import quote

import orjson
from aiohttp import ClientError, ClientResponse, ClientSession, ClientTimeout
from rich.console import Console
from rich.progress import DownloadColumn, Progress, SpinnerColumn, TextColumn, TransferSpeedColumn

from gateway.core.types import JsonObject
from gateway.whole_file import whole_file
from gateway.wire.row_file import check_form, has_columns, write_items

_LINES = "application/x-ndjson"
_CONNECT_S, _SILENCE_S = 10.0, 300.0
"""How long to wait for the gateway, and for more of an answer: one row of a long context may take it a while."""


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
    check_form(out)
    if not has_columns(out):
        with whole_file(out) as file:
            return asyncio.run(_pull(source, file))
    with whole_file(out) as file, tempfile.TemporaryFile(dir=out.parent) as pulled:
        rows = asyncio.run(_pull(replace(source, query={**source.query, "arrays": "base64"}), pulled))
        pulled.seek(0)
        try:
            write_items(out, file, map(orjson.loads, pulled))
        except ValueError as error:
            raise BrokenOff(f"what the gateway sent cannot be read: {error}") from error
        return rows


class _Lines:
    """The lines of an export as they come, all of which must be there."""

    def __init__(self) -> None:
        self.count = 0
        self._last = b""
        self._open = bytearray()

    def add(self, piece: bytes) -> None:
        """More of them; a piece may end anywhere."""
        *ended, rest = piece.split(b"\n")
        if ended:
            ended[0] = bytes(self._open) + ended[0]
            self._last = ended[-1]
            self._open.clear()
        self._open += rest
        self.count += len(ended)

    def rows(self) -> int:
        """How many rows there were.

        Raises:
            BrokenOff: the footer is missing, or counts other rows than there are.
        """
        try:
            last: object = None if self._open else orjson.loads(self._last or b"null")
        except orjson.JSONDecodeError as error:
            raise BrokenOff(f"what the gateway sent cannot be read: {error}") from error
        footer = last.get("footer") if isinstance(last, dict) else None
        if not isinstance(footer, dict) or footer.get("rows") != self.count - 1:
            raise BrokenOff("the gateway broke off: what came does not end in a footer that counts all of it")
        return self.count - 1


async def _pull(source: Source, file: BinaryIO) -> int:
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
            return await _take(answer, file)
    except (ClientError, TimeoutError, ValueError) as error:
        raise BrokenOff(f"{source.url}: {str(error) or type(error).__name__}") from error


async def _take(answer: ClientResponse, file: BinaryIO) -> int:
    """Take the answer as it comes, with what has come so far on a terminal's standard error."""
    console, lines = Console(stderr=True), _Lines()
    columns = SpinnerColumn(), TextColumn("{task.fields[rows]} rows"), DownloadColumn(), TransferSpeedColumn()
    with Progress(*columns, console=console, transient=True, disable=not sys.stderr.isatty()) as progress:
        task = progress.add_task("", total=None, rows=0)
        async for piece in answer.content.iter_any():
            file.write(piece)
            lines.add(piece)
            progress.update(task, advance=len(piece), rows=lines.count)
    return lines.rows()


async def _reason(answer: ClientResponse) -> str:
    body = await answer.read()
    try:
        error: JsonObject = orjson.loads(body)["error"]
        return str(error["message"])
    except (orjson.JSONDecodeError, KeyError, TypeError):
        return f"{answer.reason or ''}: is this a rollout-gateway?"
