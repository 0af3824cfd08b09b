"""Data-parallel ranks: each with a queue and a prefix cache of its own."""

import asyncio
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import takewhile

from gateway.sim.personality import Refused, error


class PrefixCache:
    """Which blocks of ids a rank has computed, the least recently used forgotten first.

    A block is found only after all blocks before it were, so it is named by the hash of everything up to its end.
    """

    def __init__(self, block_size: int, capacity: int) -> None:
        self.block_size, self.capacity = block_size, capacity
        self._blocks: OrderedDict[int, None] = OrderedDict()

    def match(self, token_ids: Sequence[int], salt: object) -> int:
        """How many leading ids are cached: whole blocks, and never the last id, which an engine always computes."""
        found = list(takewhile(self._blocks.__contains__, self._names(token_ids[:-1], salt)))
        self._touch(found)
        return len(found) * self.block_size

    def add(self, token_ids: Sequence[int], salt: object) -> None:
        """Remember the whole blocks of `token_ids`."""
        self._touch(self._names(token_ids, salt))
        while len(self._blocks) > self.capacity:
            self._blocks.popitem(last=False)

    def clear(self) -> None:
        """Forget everything."""
        self._blocks.clear()

    def _touch(self, names: list[int]) -> None:
        for name in reversed(names):  # so that a prefix loses its end first, without which the rest is still of use
            self._blocks[name] = None
            self._blocks.move_to_end(name)

    def _names(self, token_ids: Sequence[int], salt: object) -> list[int]:
        names, name = [], hash(str(salt))
        for end in range(self.block_size, len(token_ids) + 1, self.block_size):
            name = hash((name, *token_ids[end - self.block_size : end]))
            names.append(name)
        return names


@dataclass(slots=True)
class Rank:
    """One engine of several behind a server: at most `max_running` requests at once, the others wait in line."""

    number: int
    max_running: int
    cache: PrefixCache
    running: int = 0
    waiting: int = 0
    held_tokens: int = 0
    """Ids that running requests keep in the KV cache."""
    unread_tokens: int = 0
    """Ids of the prompts of requests, waiting or running, to which no token has been said yet."""
    most_unread_tokens: int = 0
    """The most there have been of them."""
    counts: Counter[str] = field(default_factory=Counter)
    """Tokens seen so far, by what is counted; finished requests by ``finished:<reason>``."""
    _places: asyncio.Semaphore = field(init=False)

    def __post_init__(self) -> None:
        self._places = asyncio.Semaphore(self.max_running)

    @property
    def load(self) -> int:
        """Requests here, running or waiting."""
        return self.running + self.waiting

    @contextmanager
    def expecting(self, tokens: int) -> Iterator[Callable[[], None]]:
        """Count the ids of a prompt as unread until what this gives is called, or the block ends."""

        def read() -> None:
            nonlocal tokens
            self.unread_tokens -= tokens
            tokens = 0

        self.unread_tokens += tokens
        self.most_unread_tokens = max(self.most_unread_tokens, self.unread_tokens)
        try:
            yield read
        finally:
            read()

    async def enter(self) -> None:
        """Take a place among the running; first come, first served. Whoever entered must leave."""
        self.waiting += 1
        try:
            await self._places.acquire()
        finally:
            self.waiting -= 1
        self.running += 1

    def leave(self) -> None:
        """Give the place to the next in line."""
        self.running -= 1
        self._places.release()

    def prefill(self, token_ids: Sequence[int], salt: object) -> int:
        """Take a prompt in; the number of its ids that were cached."""
        cached = self.cache.match(token_ids, salt)
        self.counts.update(queries=len(token_ids), hits=cached, prompt=len(token_ids))
        self.cache.add(token_ids, salt)
        return cached


class Ranks(list[Rank]):
    """All ranks of a server; `max_queued` requests on them together are as many as it takes."""

    max_queued: int | None = None

    @property
    def full(self) -> bool:
        """Whether there are as many requests as it takes."""
        return self.max_queued is not None and sum(rank.load for rank in self) >= self.max_queued

    def choose(self, header: str | None) -> Rank:
        """The rank a header names, else the least loaded; equals take turns. A header that is no number counts for
        nothing, a number that is no rank raises `Refused`.
        """
        try:
            number = int(header or "")
        except ValueError:
            return self._least_loaded()
        if not 0 <= number < len(self):
            text = f"data_parallel_rank {number} is out of range [0, {len(self)})."
            raise Refused(400, error(400, "BadRequestError", text), in_stream=True)
        return self[number]

    def _least_loaded(self) -> Rank:
        chosen = min(self, key=lambda rank: (rank.load, rank.counts["chosen"], rank.number))
        chosen.counts["chosen"] += 1
        return chosen
