"""The rows of a file, scored: batches of them at once, in the order of the file."""

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial

import uvloop

from gateway.audit.gap import Gap, gap_of
from gateway.audit.rows import Row, row_of
from gateway.core.types import JsonObject
from gateway.edge.backends import Backends
from gateway.edge.engine import Engine
from gateway.edge.metrics import Metrics
from gateway.edge.score import Scored, Scorer
from gateway.edge.tasks import together
from gateway.errors import EngineUnavailable, GatewayError

_LONGEST_ID = 128
_PAUSES_S = (0.25, 1.0, 4.0)
_BATCH_ROWS, _BATCH_TOKENS = 64, 1 << 18
"""What is read ahead: enough for an engine to be busy, and no whole file."""


@dataclass(frozen=True, slots=True)
class Pool:
    """Engines that score alike."""

    urls: tuple[str, ...]
    key: str
    model: str | None
    tokens_in_flight: int


@dataclass(slots=True)
class Finding:
    """What came of one row."""

    row: Row
    gap: Gap = field(default_factory=Gap)
    engine: str | None = None
    teacher_logprobs: list[float] | None = None
    trouble: str | None = None
    """Why it, or a position in it, could not be scored, and by whom."""


class Auditor:
    """Scores rows with the policy's own engines and, where there are some, a teacher's."""

    def __init__(self, policy: Pool, teacher: Pool | None) -> None:
        self._runner = asyncio.Runner(loop_factory=uvloop.new_event_loop)
        self._pools = [policy] if teacher is None else [policy, teacher]
        self._backends = [Backends([Engine(url, key=pool.key) for url in pool.urls], Metrics()) for pool in self._pools]
        made = zip(self._backends, self._pools, strict=True)
        self._scorers = [Scorer(backends, pool.tokens_in_flight) for backends, pool in made]

    @contextmanager
    def running(self) -> Iterator["Auditor"]:
        """Its connections are closed at the end."""
        with self._runner:
            try:
                yield self
            finally:
                for backends in self._backends:
                    self._runner.run(backends.close())

    def greet(self) -> None:
        """Ask whether there are engines to score with.

        Raises:
            EngineUnavailable: of one of the pools none answers.
        """
        for backends in self._backends:
            self._runner.run(backends.answering())

    def findings(self, items: Iterable[JsonObject]) -> Iterator[tuple[JsonObject, Finding | None]]:
        """Each item with what came of it, which is nothing for a footer.

        Raises:
            ConfigError: a row cannot be read.
            EngineUnavailable: engines are gone or failed.
        """
        batch: list[tuple[JsonObject, Finding | None]] = []
        tokens = 0
        for item in items:
            found = None if item.keys() == {"footer"} else Finding(row_of(item))
            batch.append((item, found))
            tokens += len(found.row.ids) if found else 0
            if len(batch) >= _BATCH_ROWS or tokens >= _BATCH_TOKENS:
                yield from self._scored(batch)
                batch, tokens = [], 0
        yield from self._scored(batch)

    def _scored(
        self, batch: Sequence[tuple[JsonObject, Finding | None]]
    ) -> Iterable[tuple[JsonObject, Finding | None]]:
        self._runner.run(together(self._score(found) for _, found in batch if found is not None))
        return batch

    async def _score(self, found: Finding) -> None:
        row, troubles = found.row, list[str]()
        for who, pool, scorer in zip(("engine", "teacher"), self._pools, self._scorers, strict=False):
            try:
                scored = await _persistently(partial(scorer.score, row.ids, pool.model, _request_id(row)))
            except EngineUnavailable:
                raise
            except GatewayError as error:
                troubles.append(f"{who}: {error.message}")
                continue
            logprobs = scored.scores.logprobs
            told = [score for score in logprobs if score is not None]
            if len(told) < len(logprobs):
                last = len(row.ids) - 1
                troubles.append(f"{who}: it names no logprob of position {last}, with which its context ends")
            if who == "engine":
                found.engine, found.gap = f"{scored.engine}#{scored.rank}", _gap(row, logprobs)
            elif len(told) == len(logprobs):
                found.teacher_logprobs = told
        found.trouble = "; ".join(troubles) or None


def _request_id(row: Row) -> str:
    """What the engine calls the call: a header, which cannot hold whatever a file may."""
    plain = row.id.isascii() and row.id.isprintable() and len(row.id) <= _LONGEST_ID
    return f"audit-{row.id if plain else secrets.token_hex(12)}"


async def _persistently(call: Callable[[], Awaitable[Scored]]) -> Scored:
    """An engine that is busy or gone is asked again before hours of scoring are given up."""
    for pause_s in _PAUSES_S:
        try:
            return await call()
        except EngineUnavailable:
            await asyncio.sleep(pause_s)
    return await call()


def _gap(row: Row, scores: Sequence[float | None]) -> Gap:
    scored = ((at, row.logprobs[at], score) for at in row.trained if (score := scores[at]) is not None)
    return gap_of(row.id, scored)
