"""What a trainer does to an engine while it runs: pause, resume, abort, name new weights."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Container, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial

from gateway.sim.engine import Request, Token
from gateway.sim.output import Output
from gateway.sim.ranks import Rank


@dataclass(frozen=True, slots=True)
class Pace:
    """How long things take, in seconds."""

    first_token_s: float = 0.0
    """From a request's place on its rank to the work on its prompt being done, whatever its length."""
    prefill_s: float = 0.0
    """On top of that, per prompt token that was not cached."""
    token_s: float = 0.0
    """Per token of the output."""


class Control:
    """The state that all ranks share, and the runs that it governs."""

    def __init__(self) -> None:
        self.version = "default"
        """Name of the weights that sample from now on."""
        self.runs: set[Run] = set()
        """The requests that were let in."""
        self.held: set[Run] = set()
        """Those that came while the engine was paused."""
        self._open, self.stepping, self._idle = asyncio.Event(), asyncio.Event(), asyncio.Event()
        for event in (self._open, self.stepping, self._idle):
            event.set()

    @property
    def paused(self) -> bool:
        """Whether new requests are held."""
        return not self._open.is_set()

    async def pause(self, mode: str) -> None:
        """Hold new requests. Those under way are ended (``abort``), waited for (``wait``) or frozen (``keep``)."""
        self._open.clear()
        if mode == "keep":
            self.stepping.clear()
        if mode == "abort":
            for run in self.runs:
                run.abort(last_word=True)
        if mode == "wait":
            await self._idle.wait()

    def resume(self) -> None:
        """Go on, with what was frozen and what was held."""
        self.stepping.set()
        self._open.set()

    def abort(self, request_ids: Container[str] | None) -> int:
        """End the runs with these ids, or all; how many there were."""
        chosen = [run for run in self.runs | self.held if request_ids is None or run.request.request_id in request_ids]
        for run in chosen:
            run.abort()
        return len(chosen)

    @asynccontextmanager
    async def governing(self, run: "Run") -> AsyncIterator[None]:
        """Let a run in, which waits while the engine is paused, and watch over it."""
        self.held.add(run)
        try:
            await run.unless_aborted(self._open.wait)
        finally:
            self.held.discard(run)
        self.runs.add(run)
        self._idle.clear()
        try:
            yield
        finally:
            self.runs.discard(run)
            if not self.runs:
                self._idle.set()


@dataclass(eq=False, slots=True)
class Run:
    """One request being generated on one rank."""

    request: Request
    outputs: Sequence[Output]
    rank: Rank
    control: Control
    pace: Pace
    cached: int = 0
    """How many ids of the prompt were in the rank's prefix cache."""
    prefilled: int = 0
    """How many were not, and had to be computed; none when it never got its place."""
    aborted: bool = False
    _last_word: bool = False
    _read: Callable[[], None] = field(default=lambda: None)
    """To be called when its prompt has been read."""
    _scope: asyncio.Timeout | None = field(default=None)

    def abort(self, *, last_word: bool = False) -> None:
        """End it wherever it is. With `last_word` the token being sampled still goes out, as in a pause of vLLM."""
        if self.aborted:
            return
        self.aborted, self._last_word = True, last_word
        if self._scope is not None:
            self._scope.reschedule(asyncio.get_running_loop().time())

    async def unless_aborted(self, wait: Callable[[], Awaitable[object]]) -> bool:
        """Wait, but no longer than until an abort; whether it was waited for in full."""
        if self.aborted:
            return False
        try:
            async with asyncio.timeout(None) as self._scope:
                await wait()
        except TimeoutError:
            return False
        finally:
            self._scope = None
        return True

    @asynccontextmanager
    async def seated(self) -> AsyncIterator[None]:
        """A place on the rank, and the prompt in its cache; without them when it was aborted in the queue."""
        with self.rank.expecting(len(self.request.prompt)) as self._read:
            async with self._placed():
                yield

    @asynccontextmanager
    async def _placed(self) -> AsyncIterator[None]:
        entered = await self.unless_aborted(self.rank.enter)
        try:
            if entered:
                self.cached = self.rank.prefill(self.request.prompt, self._salt)
                self.prefilled = len(self.request.prompt) - self.cached
                self.rank.held_tokens += len(self.request.prompt)
            yield
        finally:
            if entered:
                self.rank.held_tokens -= len(self.request.prompt) + sum(output.sent for output in self.outputs)
                for output in self.outputs:
                    self.rank.cache.add([*self.request.prompt, *output.ids[:-1]], self._salt)
                self.rank.leave()

    async def steps(self) -> AsyncIterator[tuple[Output, tuple[Token, ...], bool]]:
        """The tokens as a stream groups them: the first of each output alone, then as many as an event should hold.
        The flag marks the last of an output, which may be empty: an engine that says nothing still says why.
        """
        wait_s = self.pace.first_token_s + self.pace.prefill_s * self.prefilled
        active = [output for output in self.outputs if output.left or output.finish]
        while active:
            size = self._size(active[0])
            await self._hold(wait_s + self.pace.token_s * min(size, active[0].left))
            wait_s = 0.0
            for output in active:
                count = (1 if self._last_word and output.sent else 0) if self.aborted else size
                tokens = output.take(count, self.control.version)
                self.rank.held_tokens += len(tokens)
                self._read()
                self.rank.counts["generation"] += len(tokens)
                output.aborted = self.aborted
                if not output.left and output.finish:
                    self.rank.counts[f"finished:{output.finish}"] += 1
                yield output, tokens, not output.left
            active = [output for output in active if output.left]

    @property
    def _salt(self) -> object:
        return self.request.body.get("cache_salt")

    def _size(self, output: Output) -> int:
        if self.request.streams:
            return self.request.interval if output.sent else 1
        return 1 if self.pace.token_s else output.left

    async def _hold(self, wait_s: float) -> None:
        """Let time pass, and wait while the engine is frozen. An engine that is late does not hurry afterwards."""
        await self.unless_aborted(partial(asyncio.sleep, wait_s))
        await self.unless_aborted(self.control.stepping.wait)
