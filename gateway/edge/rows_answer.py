"""How rows are answered: in which form, and piece by piece."""

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import TypeVar

import structlog
from aiohttp import web

from gateway.core.types import JsonObject
from gateway.edge.delivery import break_off, watched
from gateway.edge.log import where
from gateway.errors import BadRequest, ConfigError
from gateway.wire.accept import negotiated
from gateway.wire.arrow import arrow_stream, need_pyarrow
from gateway.wire.pages import Unwritable, encode_lines
from gateway.wire.rows_query import RowsQuery

T = TypeVar("T")
log = structlog.get_logger()

JSON, LINES, COLUMNS = "application/json", "application/x-ndjson", "application/vnd.apache.arrow.stream"


@dataclass(frozen=True, slots=True)
class RowsAnswers:
    """Answers that are made of rows or turns, of one application."""

    stall_s: float
    """How long a reader may take nothing of what waits for it before it counts as gone."""
    thread: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(1, "rows"))
    """All of them are made here: one row of a long context takes a second, and no turn waits behind it."""

    async def form_of(self, request: web.Request, query: RowsQuery) -> tuple[str, RowsQuery]:
        """The media type in which rows are written, and the query as that has it.

        Raises:
            BadRequest: none is to be had that the client takes, or the query does not go with it.
        """
        media = negotiated(request.headers.getall("Accept", ()), (JSON, LINES, COLUMNS))
        if media == JSON and query.footer:
            raise BadRequest(f"a page has no footer: ask for one with Accept: {LINES}", param="footer")
        if media != JSON and query.cursor is not None:
            raise BadRequest(f"{media} comes all at once: ask for pages with Accept: {JSON}", param="cursor")
        if media != COLUMNS:
            return media, query
        try:
            await self._made(need_pyarrow)
        except ConfigError as error:
            raise BadRequest(f"{error}, or ask for another form in Accept", status=406) from None
        return media, replace(query, arrays="base64")  # which is sooner read than a list

    async def all_in_one(self, request: web.Request, items: Iterator[JsonObject], media: str) -> web.StreamResponse:
        """Answer with all rows, in one answer that is no page."""
        pieces = encode_lines(items) if media == LINES else arrow_stream(items)
        return await self.written(request, pieces, media)

    async def written(self, request: web.Request, pieces: Iterator[bytes], media: str = JSON) -> web.StreamResponse:
        """Answer with what is made piece by piece."""
        response = web.StreamResponse()
        response.content_type = media
        await response.prepare(request)
        whole = False
        try:
            with watched(request, self.stall_s):
                while (piece := await self._made(lambda: next(pieces, None))) is not None:
                    await response.write(piece)
                await response.write_eof()
            whole = True
        except ConnectionError:
            pass  # only a client that has left
        except Exception as error:
            names = error.names if isinstance(error, Unwritable) else {}
            log.exception("an export failed halfway", path=request.path, **names, **where())
        finally:
            if not whole:
                break_off(request)  # what was sent is no answer, and must not look like one
        return response

    async def _made(self, make: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self.thread, make)
