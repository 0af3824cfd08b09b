"""What a streamed call has said so far, for those who read it while it goes on.

One call can have several readers: a retry joins it and reads from the beginning. When even the furthest of them is too
far behind, the call waits, and nobody reads the engine's socket meanwhile. With nobody to read it does not wait: it
goes on for a retry to come.

Mutable state: the attributes of `Feed` and of its readers. A feed ends with its call's task, and is not kept.
"""

import asyncio
from collections.abc import Iterable, Sequence

from gateway.wire.pieces import PIECE_CHARS, Evidence, Piece


class Feed:
    """What the choices of one streamed call say. `room_bytes` is how far its readers may fall behind."""

    def __init__(self, session_id: str, turn_ids: Sequence[str], room_bytes: int) -> None:
        self.session_id = session_id
        self.turn_ids = turn_ids
        self.prompt_ids: Sequence[int] = ()
        self.evidence: list[Evidence] = []
        """Of each choice, what was sampled so far."""
        self.begun = False
        """Whether the engine has begun to answer."""
        self.over = asyncio.Event()
        """Set when nothing more will be said: the call has come to something, or failed."""
        self._room_bytes = room_bytes
        self._pieces: list[Piece] = []
        self._readers: list[Reader] = []
        self._room = asyncio.Event()

    def begin(self) -> None:
        """The engine answers."""
        if not self.begun:
            self.begun = True
            self._wake()

    async def add(self, said: Iterable[Piece]) -> None:
        """Say more, as soon as one reader has room for it, or none is there."""
        for piece in said:
            while self._readers and min(reader.behind_bytes for reader in self._readers) >= self._room_bytes:
                self._room.clear()
                await self._room.wait()
            self._append(piece)

    def add_rest(self, said: Iterable[Piece]) -> None:
        """Say the last of it. It is in the record of the turn already, so holding it costs nothing."""
        for piece in said:
            self._append(piece)

    def end(self) -> None:
        """Nothing more will be said."""
        self.over.set()
        self._wake()

    def _append(self, piece: Piece) -> None:
        self._pieces.append(piece)
        size_bytes = len(piece.text.encode())
        for reader in self._readers:
            reader.behind_bytes += size_bytes
        self._wake()

    def _wake(self) -> None:
        for reader in self._readers:
            reader.news.set()


class Reader:
    """One client's place in a feed; with a ``with`` block around its time there."""

    def __init__(self, feed: Feed) -> None:
        self._feed = feed
        self._place = 0
        self.news = asyncio.Event()
        self.behind_bytes = sum(len(piece.text.encode()) for piece in feed._pieces)
        """Bytes of text that were said and not taken yet."""

    def __enter__(self) -> "Reader":
        self._feed._readers.append(self)
        return self

    def __exit__(self, *_: object) -> None:
        self._feed._readers.remove(self)
        self._feed._room.set()

    @property
    def has_ended(self) -> bool:
        """Whether nothing more will be said."""
        return self._feed.over.is_set()

    @property
    def is_behind(self) -> bool:
        """Whether there is something to take."""
        return self._place < len(self._feed._pieces)

    async def wait(self, within_s: float) -> bool:
        """Wait until there is something to take, or the call begins or ends; whether one of it was in time."""
        if self.is_behind or self.has_ended:
            return True
        self.news.clear()
        return await _in_time(self.news, within_s)

    async def pause(self, for_s: float) -> None:
        """Let more be said before it is taken; no longer than to the end."""
        await _in_time(self._feed.over, for_s)

    def take(self) -> list[Piece]:
        """What was said since the last time, as much as is fit for one write."""
        said: list[Piece] = []
        chars = 0
        while self.is_behind and chars < PIECE_CHARS:
            piece = self._feed._pieces[self._place]
            said.append(piece)
            self._place += 1
            self.behind_bytes -= len(piece.text.encode())
            chars += len(piece.text)
        self._feed._room.set()
        return said


async def _in_time(event: asyncio.Event, within_s: float) -> bool:
    try:
        async with asyncio.timeout(within_s):
            return await event.wait()
    except TimeoutError:
        return False
