"""One question to several engines, whose answers are given on."""

import asyncio
from collections.abc import Sequence

from gateway.edge.engine import Engine

_SLOWER_S = 2.0
"""How long slower engines are waited for with what others have said already."""


async def asked_together(engines: Sequence[Engine], path: str) -> list[tuple[int, bytes]]:
    """Status and body of what each says to a GET; those left out that break off, or take seconds longer than others.

    Raises:
        GatewayError: none answers.
    """
    asked = [asyncio.ensure_future(engine.get(path)) for engine in engines]
    try:
        _, pending = await asyncio.wait(asked, timeout=_SLOWER_S)
        while pending and not any(map(_has_answered, asked)):
            _, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
        return [each.result() for each in asked if _has_answered(each)] or [asked[0].result()]
    finally:
        for each in asked:
            each.cancel()
        await asyncio.gather(*asked, return_exceptions=True)


def _has_answered(asked: "asyncio.Future[tuple[int, bytes]]") -> bool:
    return asked.done() and asked.exception() is None
