"""Rows scored by the engines of a pool: the policy's own, to see what the trainer would see, or a teacher's."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

from aiohttp import web

from gateway.core.pool import Affinity, Demand
from gateway.core.versions import Marks, Versions
from gateway.edge.backends import Backends
from gateway.edge.body import json_answer, refuse_other_media
from gateway.edge.request_id import request_id_of
from gateway.edge.running import EngineCall, Running
from gateway.errors import ContextLengthExceeded
from gateway.wire.score import (
    TOKENS_IN_FLIGHT,
    ScoreRequest,
    Scores,
    decode_score,
    encode_call,
    encode_scores,
    read_scores,
)

_LARGE_BYTES = 1 << 20
"""From here on, a body or an answer is read in a thread of its own. Others get their turn between two steps of ours;
orjson takes its own in one: 0.4 s for an answer of 131,072 ids, during which nothing else goes on in this process."""


@dataclass(frozen=True, slots=True)
class Scored:
    """A row's scores, and whose they are."""

    scores: Scores
    engine: str
    rank: int


class Scorer:
    """Scores rows, whoever asks, in calls of no more than `tokens_in_flight` together; a longer row goes alone."""

    def __init__(
        self, backends: Backends, tokens_in_flight: int = TOKENS_IN_FLIGHT, running: Running | None = None
    ) -> None:
        self._backends = backends
        self._running = Running() if running is None else running  # one without calls is false
        self._most = self._free = tokens_in_flight
        self._first_in_line = asyncio.Lock()
        # Who holds it waits for room; the others wait for it, in the order in which they came.
        self._freed = asyncio.Event()

    async def window_tokens(self) -> int:
        """The longest context that any model has here.

        Raises:
            EngineUnavailable: no engine answers.
        """
        await self._backends.answering()
        return max(engine.max_model_len or 0 for engine in self._backends.engines)

    async def score(self, ids: Sequence[int], model: str | None, request_id: str) -> Scored:
        """The logprob of each id of a row after those before it, at temperature 1 and without truncation.

        Raises:
            ContextLengthExceeded: the row is longer than the context of every engine that has the model.
            GatewayError: the engine refused or failed, or gave some id no logprob.
        """
        _check_room(len(ids), await self._backends.window(model))
        async with self._room(len(ids)):
            while True:
                if scored := await self._scored(ids, model, request_id):
                    return scored

    async def _scored(self, ids: Sequence[int], model: str | None, request_id: str) -> Scored | None:
        """As `score`; ``None`` when a pause has ended the call, or kept it from its beginning."""
        tokens = len(ids)
        async with self._backends.lease(Affinity(request_id), Demand(tokens, model=model)) as lease:
            rank = lease.rank
            window = rank.engine.max_model_len
            assert window is not None  # or it would not be leased
            _check_room(tokens, window)  # that with more may be gone
            if self._backends.gate.holds(new_session=False):  # it was closed meanwhile
                return None
            full = len(ids) == window
            call = encode_call(ids, model, fills_context=full)
            under_way = EngineCall(rank, lambda: 0, Marks(Versions()), is_asked_anew=True)
            try:
                with self._running.under_way(under_way):
                    async with asyncio.timeout(None) as scope:
                        with under_way.within(scope):
                            answer = await rank.engine.ask(call, request_id=request_id, rank=rank.number)
            except TimeoutError:
                if under_way.interrupted:
                    return None
                raise

            def read() -> Scores:
                return read_scores(answer, ids, fills_context=full)

            scores = await asyncio.to_thread(read) if len(answer) > _LARGE_BYTES else read()
            return Scored(scores, rank.engine.url, rank.number)

    @asynccontextmanager
    async def _room(self, tokens: int) -> AsyncIterator[None]:
        tokens = min(tokens, self._most)
        async with self._first_in_line:
            while self._free < tokens:
                self._freed.clear()
                await self._freed.wait()
            self._free -= tokens
        try:
            yield
        finally:
            self._free += tokens
            self._freed.set()


def _check_room(tokens: int, window: int) -> None:
    if tokens > window:
        raise ContextLengthExceeded(f"the row has {tokens} tokens, and the model's context holds {window}")


class Scoring:
    """``POST /score``, which is the trainer's."""

    def __init__(self, scorer: Scorer) -> None:
        self._scorer = scorer

    def routes(self) -> list[web.RouteDef]:
        """Its one route."""
        return [web.post("/score", self.score)]

    async def score(self, request: web.Request) -> web.Response:
        """The logprobs of one row, from one rank."""
        refuse_other_media(request)
        body, window = await request.read(), await self._scorer.window_tokens()

        def read() -> ScoreRequest:
            return decode_score(body, window)

        asked = await asyncio.to_thread(read) if len(body) > _LARGE_BYTES else read()
        scored = await self._scorer.score(asked.ids, asked.model, request_id_of(request))
        return json_answer(encode_scores(scored.scores, scored.engine, scored.rank))
