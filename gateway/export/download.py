"""Rows pulled from a running gateway, and put into a file of the form that its name asks for.

They are pulled as lines with a footer; for columns first of all into a file of their own. What broke off on the way is
noticed before anything takes its place at the end.
"""

import asyncio
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import BinaryIO

import orjson
from aiohttp import ClientError, ClientResponse, ClientSession, ClientTimeout
from rich.console import Console
from rich.progress import DownloadColumn, Progress, SpinnerColumn, TextColumn, TransferSpeedColumn
from yarl import URL

from gateway.client.answers import Answer, value_of
from gateway.client.calls import list_rows
from gateway.client.errors import GatewayClientError
from gateway.client.way import Way
from gateway.whole_file import whole_file
from gateway.wire.row_file import check_form, has_columns, write_items

_LINES = "application/x-ndjson"
_CONNECT_S, _SILENCE_S = 10.0, 300.0
"""How long to wait for the gateway, and for more of an answer: one row of a long context may take it a while."""


class BrokenOff(GatewayClientError):
    """The rows did not come, or not all of them; the text says why."""


def export_rows(way: Way, session_id: str | None, query: Mapping[str, object], out: Path) -> int:
    """Write rows to `out`, in the form of its suffix, and say how many they are.

    They are those of a session, or with ``None`` those of many; `query` is as ``GET /trajectories`` takes it.

    Raises:
        ConfigError: there is no such form, or pyarrow is needed and not installed.
        OSError: the file cannot be written.
        GatewayCallError: the gateway refuses.
        BrokenOff: it cannot be reached, or does not send all of it as this version knows it.
    """
    check_form(out)
    if not has_columns(out):
        with whole_file(out) as file:
            return asyncio.run(_pull(way, session_id, query, file))
    with whole_file(out) as file, tempfile.TemporaryFile(dir=out.parent) as pulled:
        rows = asyncio.run(_pull(way, session_id, {**query, "arrays": "base64"}, pulled))
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


async def _pull(way: Way, session_id: str | None, query: Mapping[str, object], file: BinaryIO) -> int:
    call = list_rows(session_id, {**query, "footer": True})
    patience = ClientTimeout(total=None, sock_connect=_CONNECT_S, sock_read=_SILENCE_S)
    try:
        async with (
            ClientSession(timeout=patience, headers=way.headers(call) | {"Accept": _LINES}) as http,
            http.get(URL(way.target(call), encoded=True)) as answer,
        ):
            if answer.status != 200:
                value_of(call, Answer(answer.status, {}, await answer.read()), repeated=False)  # which it raises
            return await _take(answer, file)
    except (ClientError, TimeoutError, ValueError) as error:
        raise BrokenOff(f"{way.url}: {str(error) or type(error).__name__}") from error


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
