"""What a streamed call has said so far, for those who read it while it goes on.

One call can have several readers: a retry joins it and reads from the beginning. When even the furthest of them is too
far behind, the call waits, and nobody reads the engine's socket meanwhile, unless it is to come to its end; how far the
others fall behind has no limit, but what they have not taken is kept for the call anyway. With nobody to read it does
not wait: it goes on for a retry to come.

Mutable state: the attributes of `Feed` and of its readers. A feed ends with its call's task, and is not kept.
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence

from gateway.core.types import UNKNOWN_VERSION, Delta, Evidence
from gateway.wire.pieces import PIECE_CHARS, Piece, pieces


class Feed:
    """What the choices of one streamed call say. `room_bytes` is how far the furthest reader may fall behind."""

    def __init__(
        self, session_id: str, turn_ids: Sequence[str], room_bytes: int, version: str = UNKNOWN_VERSION
    ) -> None:
        self.session_id = session_id
        self.turn_ids = turn_ids
        self.version = version
        """The policy version when the call came."""
        self.prompt_ids: Sequence[int] = ()
        self.evidence: list[Evidence] = []
        """Of each choice, what was sampled so far."""
        self.begun = False
        """Whether the engine has begun to answer."""
        self.over = asyncio.Event()
        """Set when nothing more will be said: the call has come to something, or failed."""
        self._room_bytes = room_bytes
        self._pieces: list[Piece] = []
        self._said_bytes = [0]
        # Bytes of text that were said before each piece; and last, of all.
        self._rest: list[tuple[int, Sequence[Delta], int]] = []
        self._readers: list[Reader] = []
        self._room = asyncio.Event()

    def begin(self) -> None:
        """The engine answers."""
        if not self.begun:
            self.begun = True
            self._wake()

    async def add(self, said: Iterable[Piece], *, waits: Callable[[], bool] = lambda: True) -> None:
        """Say more, as soon as one reader has room for it, or none is there; or at once when it no longer `waits`."""
        for piece in said:
            size_bytes = len(piece.text.encode())
            while waits() and not self._has_room(size_bytes):
                self._room.clear()
                await self._room.wait()
            self._pieces.append(piece)
            self._said_bytes.append(self._said_bytes[-1] + size_bytes)
            self._wake()

    def look_again(self) -> None:
        """Who waits for room may have to wait no longer."""
        self._room.set()

    def add_rest(self, index: int, told: Sequence[Delta], upto: int) -> None:
        """Say the last of one choice, see `pieces`. It is in the record of the turn, and cut only as it is taken."""
        self._rest.append((index, told, upto))

    def end(self) -> None:
        """Nothing more will be said."""
        self.over.set()
        self._wake()

    def _has_room(self, size_bytes: int) -> bool:
        """Whether so much may be said now: anything may to who has taken everything."""
        behind_bytes = min((reader.behind_bytes for reader in self._readers), default=0)
        return not behind_bytes or behind_bytes + size_bytes <= self._room_bytes

    def _wake(self) -> None:
        for reader in self._readers:
            reader.news.set()


class Reader:
    """One client's place in a feed; with a ``with`` block around its time there."""

    def __init__(self, feed: Feed) -> None:
        self._feed = feed
        self._place = 0
        self._rest = (piece for last in feed._rest for piece in pieces(*last))
        self.news = asyncio.Event()
        if feed.begun:
            self.news.set()

    def __enter__(self) -> "Reader":
        self._feed._readers.append(self)
        return self

    def __exit__(self, *_: object) -> None:
        self._feed._readers.remove(self)
        self._feed._room.set()

    @property
    def behind_bytes(self) -> int:
        """Bytes of text that were said and not taken yet; a retry that joins begins with all that was said."""
        return self._feed._said_bytes[-1] - self._feed._said_bytes[self._place]

    @property
    def has_ended(self) -> bool:
        """Whether nothing more will be said."""
        return self._feed.over.is_set()

    @property
    def is_behind(self) -> bool:
        """Whether there is something to take, beside the rest."""
        return self._place < len(self._feed._pieces)

    async def wait(self, within_s: float) -> bool:
        """Wait until there is something to take, or the call has begun or ended; whether one of it was in time."""
        if not (self.is_behind or self.has_ended or await _in_time(self.news, within_s)):
            return False
        self.news.clear()
        return True

    async def pause(self, for_s: float) -> None:
        """Let more be said before it is taken; no longer than to the end."""
        await _in_time(self._feed.over, for_s)

    def take(self) -> list[Piece]:
        """What was said since the last time, as much as is fit for one write; the rest when the call has ended."""
        said: list[Piece] = []
        chars = 0
        while chars < PIECE_CHARS and (piece := self._next()):
            said.append(piece)
            chars += len(piece.text)
        self._feed._room.set()
        return said

    def _next(self) -> Piece | None:
        if not self.is_behind:
            return next(self._rest, None) if self.has_ended else None
        piece = self._feed._pieces[self._place]
        self._place += 1
        return piece


async def _in_time(event: asyncio.Event, within_s: float) -> bool:
    try:
        async with asyncio.timeout(within_s):
            return await event.wait()
    except TimeoutError:
        return False
